"""The paths of the project."""

from django.urls import path

from django_shop import views

urlpatterns = [
    path("", views.page),
    path("events", views.events),
    path("orders/<str:order_id>", views.create),
    path("orders/<str:order_id>/video", views.video),
]
