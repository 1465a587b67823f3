from argparse import ArgumentParser

from django.core.management.base import BaseCommand

from shop.jobs import jobs


class Command(BaseCommand):
    help = "Run the jobs of the shop until SIGTERM."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--drain", action="store_true", help="exit when no job is due")
        parser.add_argument("--concurrency", type=int, default=10)

    def handle(self, *, drain: bool, concurrency: int, **_: object) -> None:
        summary = jobs.work(drain=drain, concurrency=concurrency)
        self.stdout.write(f"{summary}")
