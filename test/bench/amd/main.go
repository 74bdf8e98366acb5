// Command amd measures what the AMD backend costs, with the unmodified programs, the
// trees sys and dev of a machine with eight MI300X in 64 partitions (test/amdtree), and
// a stand-in kubelet: how long the first inventory takes beyond reading the same files,
// how long a switch of partitions takes to reach kubelet, and memory and CPU.
//
//	go run ./test/bench/amd -bin bin
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/accelmux/accelmux/test/amdtree"
	"github.com/accelmux/accelmux/test/bench/rig"
)

// partitions are those of eight MI300X in CPX.
const partitions = 64

func main() {
	bin := flag.String("bin", "bin", "`dir`ectory of the built programs")
	starts := flag.Int("starts", 21, "how often each backend is started for its first inventory")
	rounds := flag.Int("rounds", 20, "how often the partition mode of a GPU is switched")
	idle := flag.Duration("idle", 2*time.Minute, "how long the node is left alone")
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
	fmt.Printf("8 MI300X, %d partitions; %s\n\n", partitions, rig.Header)
	figures, err := firstInventory(bin, starts)
	if err != nil {
		return fmt.Errorf("first inventory: %w", err)
	}
	rig.Show(figures)
	return measureNode(bin, rounds, idle)
}

// newMachine makes the machine in a directory of its own: in memory, as sysfs is.
func newMachine() (tree *amdtree.Tree, remove func() error, err error) {
	dir, err := amdtree.MakeTemp()
	if err != nil {
		return nil, nil, err
	}
	remove = func() error { return os.RemoveAll(dir) }
	m := amdtree.NewMI300X("CPX", "NPS4")
	m.Cards = 0 // nobody takes the last partition's minor
	tree, err = amdtree.Write(dir, m)
	if err == nil {
		err = os.Mkdir(filepath.Join(dir, "proc"), 0o755)
	}
	if err != nil {
		return nil, nil, errors.Join(err, remove())
	}
	return tree, remove, nil
}
