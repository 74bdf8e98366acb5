// Command nvmldouble makes the double of NVIDIA's driver in a directory: the
// library, its file nvml.conf with so many GPUs in good health, and what a node
// has besides. It is for tests of other modules, and for looking at the NVIDIA
// backend by hand:
//
//	go run ./test/nvml/nvmldouble -gpus 8 DIR
//
// A line that is added to nvml.conf counts at once; see package nvml, whose README.md
// says how the agent is run with it.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"

	"github.com/accelmux/accelmux/test/nvml"
)

func main() {
	gpus := flag.Int("gpus", 1, "how many GPUs, up to 64")
	flag.Parse()
	if err := run(*gpus, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "nvmldouble:", err)
		os.Exit(1)
	}
}

func run(gpus int, args []string) error {
	if len(args) != 1 {
		return errors.New("give one directory")
	}
	dir := args[0]
	random := filepath.Join(dir, "proc/sys/kernel/random")
	if err := os.MkdirAll(random, 0o755); err != nil {
		return err
	}
	// The agent reads it below the same procfs.
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(random, "boot_id"), boot, 0o644); err != nil {
		return err
	}
	library, err := nvml.Build(context.Background(), dir)
	if err != nil {
		return err
	}
	if _, err := nvml.NewHost(dir, gpus); err != nil {
		return err
	}
	double, err := nvml.New(library, dir)
	if err != nil {
		return err
	}
	return double.Update(func(s nvml.State) {
		for slot := range gpus {
			s.AddGPU(slot)
		}
	})
}
