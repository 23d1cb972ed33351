"""What the server's methods and parts are written against: phases, states, and the base of methods."""
