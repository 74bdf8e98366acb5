// Command nvidia measures what the NVIDIA backend costs, with the unmodified
// programs, a double of the driver's library (test/nvml) and a stand-in kubelet:
// how long the first inventory takes, how long a fault takes to reach kubelet, and
// memory and CPU. It needs a C compiler.
//
//	go run ./test/bench/nvidia -bin bin
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/accelmux/accelmux/test/bench/rig"
	"github.com/accelmux/accelmux/test/nvml"
)

// gpus is how many the node has.
const gpus = 8

func main() {
	bin := flag.String("bin", "bin", "`dir`ectory of the built programs")
	starts := flag.Int("starts", 21, "how often each backend is started for its first inventory")
	rounds := flag.Int("rounds", 50, "how often each GPU fails in each of two ways")
	idle := flag.Duration("idle", time.Minute, "how long each node is left alone")
	flag.Parse()
	err := rig.FlagsOnly(flag.Args())
	if err == nil {
		err = measure(*bin, *starts, *rounds, *idle)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func measure(bin string, starts, rounds int, idle time.Duration) (err error) {
	if bin, err = filepath.Abs(bin); err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "n")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	library, err := nvml.Build(context.Background(), dir)
	if err != nil {
		return err
	}
	fmt.Printf("%d GPUs; %s\n\n", gpus, rig.Header)
	figures, err := firstInventory(bin, library, dir, starts)
	if err != nil {
		return fmt.Errorf("first inventory: %w", err)
	}
	rig.Show(figures)
	// Replicas are the core's; the backend must not pay for them.
	for _, replicas := range []int{1, 100} {
		if err := measureNode(bin, library, replicas, rounds, idle); err != nil {
			return fmt.Errorf("%d replicas: %w", replicas, err)
		}
	}
	return nil
}

func measureNode(bin, library string, replicas, rounds int, idle time.Duration) (err error) {
	n, err := startNode(bin, library, replicas)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, n.Stop()) }()
	figures, err := n.rest(idle)
	if err != nil {
		return err
	}
	rig.Show(figures)
	if replicas > 1 || rounds == 0 {
		return nil
	}
	for _, way := range []fault{xid, recovery} {
		if figures, err = n.faults(way, rounds); err != nil {
			return fmt.Errorf("%s: %w", way.name, err)
		}
		rig.Show(figures)
	}
	figures, err = n.memory("after the faults")
	rig.Show(figures)
	return err
}
