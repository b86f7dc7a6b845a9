"""A Django project whose page orders videos, under ASGI.

uvicorn --timeout-graceful-shutdown 3 --lifespan on django_shop.asgi:application
"""
