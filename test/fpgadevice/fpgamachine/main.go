// Command fpgamachine makes the trees sys and dev of a machine with Intel FPGA cards in
// a directory, answers the ioctls of programs that it wraps, and changes the machine as
// its input says, a line for each change. It is for tests of other modules, and for
// looking at the FPGA backend by hand:
//
//	go run ./test/fpgadevice/fpgamachine -machine n3000 DIR
//	make /bitstreams/crypto.gbs IF AFU    one for the interface IF, with the function AFU
//	wrap /bin/accelmux-backend-fpga FILE  that program on these cards, as a program FILE
//	unplug 0                              and plug 0
//	reload 1 0                            the driver, which finds the cards in this order
//	register 0000:05:00.0 port0/errors 2  an error register
//	fail EIO                              the next programming
//	calls                                 what was asked: "ok program 2 reset 1"
//
// Each line is answered with "ok" or with what is wrong. See packages fpgadevice and
// fpgatree.
package main

import (
	"bufio"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/accelmux/accelmux/backends/pci"
	"github.com/accelmux/accelmux/test/fpgadevice"
	"github.com/accelmux/accelmux/test/fpgatree"
)

func main() {
	machine := flag.String("machine", "n3000", "d5005, n3000, n6000, arria10, vf or mixed")
	flag.Parse()
	if err := run(*machine, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "fpgamachine:", err)
		os.Exit(1)
	}
}

func run(name string, args []string) (err error) {
	if len(args) != 1 {
		return errors.New("give one directory")
	}
	machines := map[string]func() fpgatree.Machine{
		"d5005": fpgatree.NewD5005, "n3000": fpgatree.NewN3000, "n6000": fpgatree.NewN6000, "arria10": fpgatree.NewArria10,
		"vf": fpgatree.NewVF, "mixed": fpgatree.NewMixed,
	}
	machine, ok := machines[name]
	if !ok {
		return fmt.Errorf("there is no machine %q", name)
	}
	tree, err := fpgatree.Write(args[0], machine())
	if err != nil {
		return err
	}
	device, err := fpgadevice.Start(tree)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, device.Close()) }()
	fmt.Println("ok")
	return serve(tree, device, os.Stdin, os.Stdout)
}

// serve makes changes until the input ends.
func serve(tree *fpgatree.Tree, device *fpgadevice.Device, in io.Reader, out io.Writer) error {
	lines := bufio.NewScanner(in)
	for lines.Scan() {
		answer, err := change(tree, device, strings.Fields(lines.Text()))
		if err != nil {
			answer = err.Error()
		}
		if _, err := fmt.Fprintln(out, answer); err != nil {
			return err
		}
	}
	return lines.Err()
}

// change makes one change, and is the answer.
func change(tree *fpgatree.Tree, device *fpgadevice.Device, words []string) (string, error) {
	if len(words) == 0 {
		return "", errors.New("nothing is said")
	}
	args := words[1:]
	switch verb := words[0]; {
	case verb == "make" && len(args) == 3:
		b := fpgadevice.Bitstream{Interface: args[1], AFU: args[2], Payload: []byte("payload of " + args[2])}
		device.Know(b)
		return "ok", os.WriteFile(args[0], b.GBS(), 0o644)
	case verb == "wrap" && len(args) == 2:
		program, err := filepath.Abs(args[0])
		if err == nil {
			err = device.Program(args[1], program)
		}
		return "ok", err
	case verb == "fail" && len(args) == 1:
		return "ok", fail(device, args[0])
	case verb == "register" && len(args) == 3:
		return "ok", register(tree, args)
	case verb == "calls" && len(args) == 0:
		return calls(device), nil
	}
	cards, err := numbers(args)
	if err != nil {
		return "", err
	}
	switch verb := words[0]; {
	case verb == "reload":
		return "ok", tree.ReloadDriver(cards...)
	case verb == "unplug" && len(cards) == 1:
		return "ok", tree.Unplug(cards[0])
	case verb == "plug" && len(cards) == 1:
		return "ok", tree.Plug(cards[0])
	}
	return "", fmt.Errorf("%q is no change", strings.Join(words, " "))
}

// fail has the next programming fail with an error of that name.
func fail(device *fpgadevice.Device, name string) error {
	for errno := unix.Errno(1); errno < 134; errno++ {
		if unix.ErrnoName(errno) == name {
			device.Next(fpgadevice.Answer{Errno: errno})
			return nil
		}
	}
	return fmt.Errorf("there is no error %q", name)
}

func register(tree *fpgatree.Tree, args []string) error {
	at, err := pci.ParseAddress(args[0])
	if err != nil {
		return err
	}
	value, err := strconv.ParseUint(args[2], 0, 64)
	if err != nil {
		return err
	}
	return tree.SetRegister(at, args[1], value)
}

func calls(device *fpgadevice.Device) string {
	return fmt.Sprintf("ok program %d reset %d", len(device.Calls(fpgadevice.Program)), len(device.Calls(fpgadevice.Reset)))
}

// numbers are the words as numbers of cards.
func numbers(words []string) ([]int, error) {
	all := make([]int, 0, len(words))
	for _, word := range words {
		n, err := strconv.Atoi(word)
		if err != nil || n < 0 {
			return nil, fmt.Errorf("%q is no number of a card", word)
		}
		all = append(all, n)
	}
	return all, nil
}
