package driver

import (
	"github.com/accelmux/accelmux/backends/sdk"
)

// Fault is a fault of a card or a region.
type Fault struct {
	// Code is short and machine-readable, such as "port-errors".
	Code     string
	Recovery sdk.Recovery
	// Text is for the operator: what happened, in which file or register, and what to do.
	Text string
	// Cause is the name by which settings ignore it: that of the register or the alarm, such as
	// "pcie0_errors".
	Cause string
}

// Count is a counter of the card. Its name is that of a metric.
type Count struct {
	Name string
	// Label distinguishes those of one name, such as the register.
	Label string
	// Grows: it only grows, until a reset. If so, and only then, its name ends in _total.
	Grows bool
	Value float64
}
