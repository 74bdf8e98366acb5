// Command fpga measures what the FPGA backend costs, with the unmodified programs, the
// trees sys and dev of a machine with eight N3000 (test/fpgatree), what answers ioctls
// in the place of the kernel's drivers (test/fpgadevice), and a stand-in kubelet: how
// long the first inventory takes beyond reading the same files, how long programming
// takes beyond what the card needs, and memory and CPU.
//
//	go run ./test/bench/fpga -bin bin
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/accelmux/accelmux/test/bench/rig"
	"github.com/accelmux/accelmux/test/fpgatree"
	"github.com/accelmux/accelmux/test/sysroot"
)

// cards are those of the machine.
const cards = 8

// options are the flags.
type options struct {
	bin            string
	starts, rounds int
	idle, needs    time.Duration
	size           int // of a bitstream, in MiB
}

func main() {
	var o options
	flag.StringVar(&o.bin, "bin", "bin", "`dir`ectory of the built programs")
	flag.IntVar(&o.starts, "starts", 21, "how often each backend is started for its first inventory")
	flag.IntVar(&o.rounds, "rounds", 21, "how often a card is programmed")
	flag.DurationVar(&o.idle, "idle", 2*time.Minute, "how long the node is left alone")
	flag.DurationVar(&o.needs, "needs", 200*time.Millisecond, "how long a card needs to be programmed")
	flag.IntVar(&o.size, "size", 128, "size of a bitstream in `MiB`")
	bare := flag.Bool("alone", false, "just program the port 0 of the card of a node with a file; for the benchmark itself")
	flag.Parse()
	err := rig.FlagsOnly(flag.Args())
	switch {
	case *bare:
		err = alone(flag.Args())
	case err == nil:
		err = measure(o)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func measure(o options) (err error) {
	if o.bin, err = filepath.Abs(o.bin); err != nil {
		return err
	}
	fmt.Printf("%d N3000; %s\n\n", cards, rig.Header)
	figures, err := firstInventory(o.bin, o.starts)
	if err != nil {
		return fmt.Errorf("first inventory: %w", err)
	}
	rig.Show(figures)
	if err := measureNode(o); err != nil {
		return err
	}
	if err := measureProgramming(o); err != nil {
		return fmt.Errorf("programming: %w", err)
	}
	return nil
}

// newMachine makes the machine in a directory of its own: in memory, as sysfs is.
func newMachine() (tree *fpgatree.Tree, remove func() error, err error) {
	dir, err := sysroot.MakeTemp()
	if err != nil {
		return nil, nil, err
	}
	remove = func() error { return os.RemoveAll(dir) }
	tree, err = fpgatree.Write(dir, fpgatree.NewMany(cards))
	if err == nil {
		err = os.Mkdir(filepath.Join(dir, "proc"), 0o755)
	}
	if err != nil {
		return nil, nil, errors.Join(err, remove())
	}
	return tree, remove, nil
}
