#!/usr/bin/env python3
from lockstep.print_weights import main

main()
