package fpgatree

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/accelmux/accelmux/backends/pci"
	"github.com/accelmux/accelmux/test/sysroot"
)

// Program has a port say another AFU ID, as after a partial reconfiguration. The port
// is at the PCI function, which may be a virtual one.
func (t *Tree) Program(at pci.Address, port int, afu string) error {
	return t.set(at, fmt.Sprintf("port%d/afu_id", port), afu+"\n")
}

// SetRegister sets an error register: "fme/catfatal_errors", "fme/fme_errors", or
// "port0/errors"; 0 clears it.
func (t *Tree) SetRegister(at pci.Address, register string, value uint64) error {
	of, name, ok := strings.Cut(register, "/")
	if !ok {
		return fmt.Errorf("%q is no register; want such as fme/catfatal_errors", register)
	}
	return t.set(at, of+"/errors/"+name, fmt.Sprintf("0x%x\n", value))
}

// SetSensor sets a file of the sensors of a card, such as "temp1_crit_alarm" to 1, of
// the chip with the name, such as "dfl_fme_thermal".
func (t *Tree) SetSensor(at pci.Address, chip, file string, value int) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	links, err := filepath.Glob(filepath.Join(t.Root, "sys/class/hwmon/*"))
	if err != nil {
		return err
	}
	for _, link := range links {
		dir, err := filepath.EvalSymlinks(link)
		if err != nil || !strings.Contains(dir, "/"+at.String()+"/") {
			continue
		}
		if name, err := os.ReadFile(filepath.Join(dir, "name")); err != nil || strings.TrimSpace(string(name)) != chip {
			continue
		}
		return t.replace(filepath.Join("sys/class/hwmon", filepath.Base(link), file), fmt.Sprintln(value))
	}
	return fmt.Errorf("card %s has no sensors %q", at, chip)
}

// set replaces a file that is there, below fme or portN of a function.
func (t *Tree) set(at pci.Address, name, content string) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	of, rest, _ := strings.Cut(name, "/")
	dir, err := t.find(at, of)
	if err != nil {
		return err
	}
	return t.replace(path.Join(dir, rest), content)
}

// replace replaces a file that is there.
func (t *Tree) replace(name, content string) error {
	real, err := sysroot.Real(t.Root, name)
	if err != nil {
		return err
	}
	if _, err := os.Lstat(filepath.Join(t.Root, real)); err != nil {
		return err
	}
	return sysroot.Replace(t.Root, real, content)
}

// Find is the path, below the root, of what is "fme" or "portN" of a function, N being
// what its file id says.
func (t *Tree) Find(at pci.Address, of string) (string, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.find(at, of)
}

func (t *Tree) find(at pci.Address, of string) (string, error) {
	regions := filepath.Join(t.Root, "sys/bus/pci/devices", at.String(), "fpga*", "*")
	kind := "*-fme.*"
	id, isPort := strings.CutPrefix(of, "port")
	if isPort {
		kind = "*-port.*"
	}
	dirs, err := filepath.Glob(filepath.Join(regions, kind))
	if err != nil {
		return "", err
	}
	for _, dir := range dirs {
		if text, err := os.ReadFile(filepath.Join(dir, "id")); isPort && (err != nil || strings.Trim(string(text), "\x00\n ") != id) {
			continue
		}
		if _, err := strconv.Atoi(strings.TrimPrefix(filepath.Ext(dir), ".")); err != nil {
			continue
		}
		return filepath.Rel(t.Root, dir)
	}
	return "", fmt.Errorf("function %s has no %s", at, of)
}

// SetFile writes a file of the tree, such as "sys/bus/pci/devices/0000:05:00.0/class",
// in one step.
func (t *Tree) SetFile(name, content string) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	real, err := sysroot.Real(t.Root, name)
	if err != nil {
		return err
	}
	return sysroot.Replace(t.Root, real, content)
}

// Spoil does a damage to a file of the tree, whose name begins with sys/ or dev/.
func (t *Tree) Spoil(name string, damage sysroot.Damage) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return damage(filepath.Join(t.Root, name))
}
