// Command fpga measures what the FPGA backend's Prepare costs, with the unmodified programs, the
// trees sys and dev of a machine with eight N3000 (test/fpgatree), what answers ioctls
// in the place of the kernel's drivers (test/fpgadevice), and a stand-in kubelet: how
// long a container's start takes beyond the programming of its card, and the backend's
// memory meanwhile.
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
	bin    string
	rounds int
	needs  time.Duration
	size   int // of a bitstream, in MiB
}

func main() {
	var o options
	flag.StringVar(&o.bin, "bin", "bin", "`dir`ectory of the built programs")
	flag.IntVar(&o.rounds, "rounds", 21, "how often a card is programmed")
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
