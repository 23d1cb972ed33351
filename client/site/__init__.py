"""One institution's place on its own machine."""
