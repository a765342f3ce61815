from roboco.gateway.app import create_app as create_app
from roboco.gateway.settings import GatewaySettings as GatewaySettings

__all__ = ["GatewaySettings", "create_app"]
