raise ImportError("the package toys was initialised; its task alone should have been loaded")
