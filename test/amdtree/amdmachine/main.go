// Command amdmachine makes the trees sys and dev of a machine with AMD GPUs in a
// directory, and changes them as its input says, a line for each change. It is for
// tests of other modules, and for looking at the AMD backend by hand:
//
//	go run ./test/amdtree/amdmachine -machine mi300x -compute CPX -memory NPS4 DIR
//	switch 0 SPX NPS1     the partition modes of GPU 0, - for one that stays
//	unplug 3              and plug 3
//	raise 5 umc.ue 1      an error counter
//	reload 1 0            the driver, which finds the cards in this order
//
// Each line is answered with "ok" or with what is wrong. See package amdtree.
package main

import (
	"bufio"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"github.com/accelmux/accelmux/test/amdtree"
)

func main() {
	machine := flag.String("machine", "mi300x", "vega10, mi210, mi300x or mixed")
	compute := flag.String("compute", "SPX", "compute partition mode of mi300x")
	memory := flag.String("memory", "NPS1", "memory partition mode of mi300x")
	flag.Parse()
	if err := run(*machine, *compute, *memory, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "amdmachine:", err)
		os.Exit(1)
	}
}

func run(machine, compute, memory string, args []string) error {
	if len(args) != 1 {
		return errors.New("give one directory")
	}
	machines := map[string]amdtree.Machine{
		"vega10": amdtree.NewVega10(), "mi210": amdtree.NewMI210(), "mixed": amdtree.NewMixed(),
		"mi300x": amdtree.NewMI300X(compute, memory),
	}
	m, ok := machines[machine]
	if !ok {
		return fmt.Errorf("there is no machine %q", machine)
	}
	tree, err := amdtree.Write(args[0], m)
	if err != nil {
		return err
	}
	tree.Sudden = true
	fmt.Println("ok")
	return serve(tree, os.Stdin, os.Stdout)
}

// serve makes changes until the input ends.
func serve(tree *amdtree.Tree, in io.Reader, out io.Writer) error {
	lines := bufio.NewScanner(in)
	for lines.Scan() {
		answer := "ok"
		if err := change(tree, strings.Fields(lines.Text())); err != nil {
			answer = err.Error()
		}
		if _, err := fmt.Fprintln(out, answer); err != nil {
			return err
		}
	}
	return lines.Err()
}

// change makes one change.
func change(tree *amdtree.Tree, words []string) error {
	if len(words) == 0 {
		return errors.New("nothing is said")
	}
	gpus, err := numbers(words[1:])
	switch {
	case words[0] == "reload" && err == nil:
		return tree.ReloadDriver(gpus...)
	case words[0] == "unplug" && err == nil && len(gpus) == 1:
		return tree.Unplug(gpus[0])
	case words[0] == "plug" && err == nil && len(gpus) == 1:
		return tree.Plug(gpus[0])
	case len(words) != 4:
		return fmt.Errorf("%q is no change", strings.Join(words, " "))
	}
	gpu, err := strconv.Atoi(words[1])
	if err != nil {
		return fmt.Errorf("no number of a GPU: %w", err)
	}
	switch words[0] {
	case "switch":
		return tree.SwitchPartition(gpu, mode(words[2]), mode(words[3]))
	case "raise":
		by, err := strconv.ParseUint(words[3], 10, 64)
		if err != nil {
			return err
		}
		return tree.RaiseCounter(gpu, words[2], by)
	}
	return fmt.Errorf("%q is no change", words[0])
}

// numbers are the words as numbers of GPUs.
func numbers(words []string) ([]int, error) {
	all := make([]int, 0, len(words))
	for _, word := range words {
		n, err := strconv.Atoi(word)
		if err != nil || n < 0 {
			return nil, fmt.Errorf("%q is no number of a GPU", word)
		}
		all = append(all, n)
	}
	return all, nil
}

func mode(word string) string {
	if word == "-" {
		return ""
	}
	return word
}
