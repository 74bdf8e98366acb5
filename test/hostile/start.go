package hostile

import (
	"fmt"
	"math"
	"time"
)

func starts() []Misdeed {
	return []Misdeed{
		{
			Name: "prints-first", Group: Starts, What: "prints before the handshake",
			start: func() { fmt.Println("vendor library 7.1 initialized") },
		},
		{
			Name: "mute", Group: Starts, What: "never says the handshake",
			start: hang,
		},
		{
			Name: "garbled-handshake", Group: Starts, What: "says a handshake of nonsense",
			start: func() {
				fmt.Println("1|1|unix|/\x1b[31m/../etc/passwd|grpc|" + "!!!!")
				hang()
			},
		},
		{
			Name: "elsewhere", Group: Starts, What: "sends the core to a socket that is not its own",
			start: func() {
				fmt.Println("1|1|unix|/run/containerd/containerd.sock|grpc|")
				hang()
			},
		},
	}
}

// hang never returns. The timer keeps Go's runtime from ending a program in which nothing
// can run any more.
func hang() { <-time.After(math.MaxInt64) }
