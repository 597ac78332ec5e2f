from anydml.pydirectml import *
