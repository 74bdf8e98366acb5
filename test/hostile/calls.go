package hostile

import (
	"context"
	"strings"
)

// calls are those of the contract.
var calls = []string{"Configure", "Watch", "Prepare", "Release", "Reset", "Sample"}

// hangs are calls that are never answered, also when they are cancelled.
func hangs() []Misdeed {
	var all []Misdeed
	for _, call := range calls {
		all = append(all, Misdeed{
			Name: "hangs-in-" + strings.ToLower(call), Group: Hangs, What: "does not answer " + call, Call: call,
			call: func(context.Context) { select {} },
		})
	}
	return all
}

// crashes are those at each step of a backend's life.
func crashes() []Misdeed {
	const status, words = 7, "the driver's library has aborted"
	all := []Misdeed{
		{
			Name: "crashes-at-start", Group: Crashes, What: "crashes before the handshake",
			start: func() { die(status, words) },
		},
		{
			Name: "crashes-in-a-loop", Group: Crashes, What: "crashes as soon as it has listed its devices, every time",
			running: func() { die(status, words) },
		},
	}
	for _, call := range calls {
		all = append(all, Misdeed{
			Name: "crashes-in-" + strings.ToLower(call), Group: Crashes, What: "crashes in " + call, Call: call,
			call: func(context.Context) { die(status, words) },
		})
	}
	return all
}
