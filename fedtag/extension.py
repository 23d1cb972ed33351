"""What a method, part, condenser, backbone or tracker of one's own is made of.

Names are resolved when they are first used: a module that holds specifications alone imports no PyTorch.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub("fedtag", __file__)
