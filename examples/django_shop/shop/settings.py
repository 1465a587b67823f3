"""The shop and the jobs share a database."""

import os

from psycopg.conninfo import conninfo_to_dict

DATABASE_URL = os.environ["DATABASE_URL"]
_parts = conninfo_to_dict(DATABASE_URL)

DATABASES = {
    "default": {
        "ENGINE": "django.db.backends.postgresql",
        "HOST": _parts.get("host", ""),
        "PORT": _parts.get("port", ""),
        "USER": _parts.get("user", ""),
        "PASSWORD": _parts.get("password", ""),
        "NAME": _parts["dbname"],
    }
}
INSTALLED_APPS = ["shop"]
ROOT_URLCONF = "shop.urls"
MIGRATION_MODULES = {"shop": None}  # no migrations: `migrate --run-syncdb` creates the tables
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
SECRET_KEY = os.environ.get("SECRET_KEY", "only for trying it out")
DEBUG = True
USE_TZ = True
LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "handlers": {"console": {"class": "logging.StreamHandler"}},
    "loggers": {"tenure": {"handlers": ["console"], "level": "INFO"}},
}
