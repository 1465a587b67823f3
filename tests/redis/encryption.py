"""TLS for a proxy before a server: those of the wheels are built without it.

The key is no secret, and the certificate says 127.0.0.1 for a hundred years. Both were made with openssl.
"""

from pathlib import Path
from ssl import PROTOCOL_TLS_SERVER, SSLContext

FOLDER = Path(__file__).parent / "tls"
CERTIFICATE = FOLDER / "certificate.pem"


def own_tls() -> SSLContext:
    """Return TLS with this certificate, which clients trust who name it as that of an authority."""
    context = SSLContext(PROTOCOL_TLS_SERVER)
    context.load_cert_chain(CERTIFICATE, FOLDER / "key.pem")
    return context
