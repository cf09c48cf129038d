#!/usr/bin/env python3
from lockstep.load_pytorch import main

main()
