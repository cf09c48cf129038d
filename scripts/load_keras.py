#!/usr/bin/env python3
from lockstep.load_keras import main

main()
