//go:build lockstep_steps

package main

import _ "github.com/lockstep-dev/lockstep/internal/clockshift" // a test may shift the clock
