"""TLS for a proxy in front of a server: the servers from the wheels are built without TLS.

The key is not secret. The certificate is for 127.0.0.1 and valid for a hundred years. Both come from openssl.
"""

from pathlib import Path
from ssl import PROTOCOL_TLS_SERVER, SSLContext

FOLDER = Path(__file__).parent / "tls"
CERTIFICATE = FOLDER / "certificate.pem"


def own_tls() -> SSLContext:
    """Return a TLS context with this certificate. Clients trust it if they use it as CA certificate."""
    context = SSLContext(PROTOCOL_TLS_SERVER)
    context.load_cert_chain(CERTIFICATE, FOLDER / "key.pem")
    return context
