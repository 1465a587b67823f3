from django.db import connection, transaction
from django.http import HttpRequest, JsonResponse
from django.shortcuts import get_object_or_404
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_POST

from shop.jobs import ship
from shop.models import Order

IN_STOCK = 100


@csrf_exempt
@require_POST
def place_order(request: HttpRequest) -> JsonResponse:
    with transaction.atomic():
        order = Order.objects.create(total=int(request.POST["total"]))
        # The job exists only if the order is committed; the commit wakes a worker.
        job_id = ship.using(connection=connection).enqueue(order.pk)
        if order.total > IN_STOCK:
            transaction.set_rollback(True)
            return JsonResponse({"error": "out of stock"}, status=409)
    return JsonResponse({"order": order.pk, "job": job_id}, status=201)


def show_order(_: HttpRequest, number: int) -> JsonResponse:
    order = get_object_or_404(Order, pk=number)
    return JsonResponse({"state": order.state, "parcels": order.parcel_set.count()})
