"""A Django shop that writes orders and jobs in one transaction.

    export DATABASE_URL=postgresql://app:secret@db.example.org/app
    python manage.py migrate --run-syncdb
    python manage.py runserver
    python manage.py work
    curl -X POST -d total=12 localhost:8000/orders/
    curl localhost:8000/orders/1/

The worker runs in its own process. You can start several workers, and kill any of them without losing jobs.
"""

import os
import sys

from django.core.management import execute_from_command_line

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "shop.settings")

if __name__ == "__main__":
    execute_from_command_line(sys.argv)
