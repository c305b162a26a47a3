"""What runs in service or on live metrics: the gateway, the diagnosis of servers, drift from predictions."""
