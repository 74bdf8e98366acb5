package faults

import (
	"fmt"
	"math"
	"strconv"
	"time"
)

// burnRole is the process that burns CPU.
const burnRole = "faults-burn"

// burn takes a share of a core, of several if it is above 1, until SIGTERM.
func burn(args []string) error {
	if len(args) != 1 {
		return fmt.Errorf("give the share of a core, not %q", args)
	}
	share, err := strconv.ParseFloat(args[0], 64)
	if err != nil {
		return fmt.Errorf("the share of a core: %w", err)
	}
	for ; share > 1; share-- {
		go spin(1)
	}
	spin(share)
	return nil
}

// spin computes in periods of 10 ms, and rests in between.
func spin(share float64) {
	const period = 10 * time.Millisecond
	ticker := time.NewTicker(period)
	defer ticker.Stop()
	for x := 1.0; ; {
		for began := time.Now(); time.Since(began) < time.Duration(share*float64(period)); {
			x = math.Sqrt(x + 1)
		}
		<-ticker.C
	}
}
