package fpgatree

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/accelmux/accelmux/test/sysroot"
)

// Kernel stands for the part of a kernel for AMD's SoCs that is behind the files of a
// manager: what is written to them is done before the write returns, or it is an error.
type Kernel struct {
	Tree *Tree
	// Firmware is the directory in which the kernel looks for files.
	Firmware string
	// Fail has the step, such as "write", end with an error: the state is then that of
	// the step, with " error" behind it. Empty for none.
	Fail string
	// Status is what the manager says afterwards.
	Status string
	// During is called at each step. It may read the tree.
	During func(step string)

	// Programmed are the contents of the files that were put into an FPGA, in order.
	Programmed [][]byte
	// Flags are those with which the last one was.
	Flags uint64
}

// Write takes what is written to a file of a manager of the tree.
func (k *Kernel) Write(file, text string) error {
	dir, name := filepath.Split(file)
	real, err := sysroot.Real(k.Tree.Root, mustRel(k.Tree.Root, file))
	if err != nil {
		return err
	}
	if _, err := os.Stat(file); err != nil {
		return err
	}
	switch name {
	case "flags":
		n, err := strconv.ParseUint(strings.TrimSuffix(text, "\n"), 16, 63)
		if err != nil {
			return unix.EINVAL
		}
		k.Flags = n
		return sysroot.Replace(k.Tree.Root, real, fmt.Sprintf("%x\n", n))
	case "firmware":
		return k.load(filepath.Dir(real), strings.TrimSuffix(text, "\n"))
	}
	return fmt.Errorf("%s cannot be written in %s: %w", name, dir, unix.EACCES)
}

// load goes through the steps of programming.
func (k *Kernel) load(manager, name string) error {
	if len(name) >= 254 {
		return unix.E2BIG
	}
	say := func(file, text string) { _ = sysroot.Replace(k.Tree.Root, filepath.Join(manager, file), text) }
	say("status", k.Status)
	for _, step := range []string{"firmware request", "parse header", "write init", "write", "write complete"} {
		say("state", step+"\n")
		if k.During != nil {
			k.During(step)
		}
		failed, errno := k.Fail == step, unix.EINVAL
		if step == "firmware request" {
			content, err := os.ReadFile(filepath.Join(k.Firmware, name))
			if failed = failed || err != nil; failed {
				errno = unix.ENOENT
			} else {
				k.Programmed = append(k.Programmed, content)
			}
		}
		if failed {
			say("state", step+" error\n")
			return errno
		}
	}
	say("state", "operating\n")
	return nil
}

func mustRel(root, file string) string {
	rel, err := filepath.Rel(root, file)
	if err != nil {
		return file
	}
	return rel
}
