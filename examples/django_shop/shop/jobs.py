"""The background jobs of the shop."""

from collections.abc import Iterator
from contextlib import contextmanager

from django.conf import settings
from django.db import close_old_connections, connection, transaction

import tenure
from shop.models import Order, Parcel

jobs = tenure.Jobs(settings.DATABASE_URL)


@jobs.around
@contextmanager
def with_a_usable_connection() -> Iterator[None]:
    """Close old connections around each job, as Django does around each request."""
    close_old_connections()
    try:
        yield
    finally:
        close_old_connections()


@jobs.task(queue="shipping")
def ship(order_id: int) -> None:
    with transaction.atomic():
        order = Order.objects.select_for_update().get(pk=order_id)
        parcel = Parcel.objects.create(order=order)
        order.state = "shipped"
        order.save()
        thank.using(connection=connection).enqueue(order_id)
        # Last: the parcel, the state, the next job and the completion are committed together or not at all.
        tenure.current().complete({"parcel": parcel.pk}, connection=connection)


@jobs.task(queue="mail")
def thank(order_id: int) -> str:
    return f"thank you for order {order_id}"
