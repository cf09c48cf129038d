#!/usr/bin/env python3
from lockstep.plot_run import main

main()
