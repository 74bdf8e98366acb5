package fpga

import (
	"github.com/accelmux/accelmux/backends/engine"
	"github.com/accelmux/accelmux/backends/fpga/driver"
)

// target is a region, its card and its driver, as they were read last.
type target struct {
	engine.Target
	driver driver.Driver
	card   driver.Card
	region driver.Region
	// put is the program that this process put into it; nil if none.
	put *program
}

func targetOf(t engine.Target) target {
	s, _ := t.Driver.(source)
	m, _ := t.Memory.(memory)
	return target{t, s.driver, cardIn(t.Unit), regionIn(t.Device), m.program}
}

// preparation prepares one device for a container.
type preparation struct {
	b   *Backend
	cfg *config
	target
	resource string
	// file is the file that the container requests; empty if none.
	file string
	// shared: another container has the region, too. joined: another container that starts
	// now has asked for the same file.
	shared, joined bool
}
