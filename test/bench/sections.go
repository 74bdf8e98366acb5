package main

import (
	"github.com/accelmux/accelmux/test/bench/allocate"
	"github.com/accelmux/accelmux/test/bench/claims"
	"github.com/accelmux/accelmux/test/bench/described"
	"github.com/accelmux/accelmux/test/bench/faults"
	"github.com/accelmux/accelmux/test/bench/links"
	"github.com/accelmux/accelmux/test/bench/rest"
	"github.com/accelmux/accelmux/test/bench/rig"
	"github.com/accelmux/accelmux/test/bench/scale"
	"github.com/accelmux/accelmux/test/bench/starts"
)

// sections are all of them, in the order of the table.
var sections = []rig.Section{
	allocate.Section,
	rest.Section,
	described.Section,
	starts.Section,
	faults.Section,
	scale.Section,
	claims.Section,
	links.Section,
}
