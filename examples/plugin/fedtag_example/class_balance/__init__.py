"""The method: FedAvg whose loss weighs classes by how rare they are among all clients' labels."""
