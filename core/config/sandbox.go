package config

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/accelmux/accelmux/core/inventory"
	"github.com/accelmux/accelmux/core/sandbox"
	"github.com/accelmux/accelmux/core/suggestion"
)

// Sandbox is how a backend's process is restricted to what it needs (package sandbox).
type Sandbox struct {
	// Mode is sandbox.Auto (default), sandbox.Required or sandbox.Off.
	Mode sandbox.Mode `yaml:"mode"`
	// User is the user of the process. Default UserAuto.
	User User `yaml:"user"`
	// Memory is the most memory of the process and its children; 0 (default) for no limit. It needs a
	// cgroup of version 2 that the agent may divide, as PIDs and CPUWeight do.
	Memory Bytes `yaml:"memory"`
	// PIDs is the most processes and threads. Default DefaultPIDs; 16 to DefaultPIDs.
	PIDs int `yaml:"pids"`
	// CPUWeight is the share of the processor's time while it is short (cpu.weight in cgroups(7)); 1 to
	// 10000. Default 100.
	CPUWeight int `yaml:"cpuWeight"`
}

// User is a user of a backend's process: UserAuto, UserRoot or the number of a user.
type User string

// The users that are no numbers.
const (
	// UserAuto is a user of the backend's own if that may open all that the backend needs, otherwise root.
	UserAuto User = sandbox.UserOwn
	// UserRoot is the agent's own user, which is root.
	UserRoot User = sandbox.UserRoot
)

// UnmarshalText reads a user.
func (u *User) UnmarshalText(text []byte) error {
	*u = User(text)
	if *u == UserAuto || *u == UserRoot {
		return nil
	}
	if id, err := strconv.ParseUint(string(text), 10, 32); err != nil || id < 1 || id > maxGID {
		return fmt.Errorf("must be auto, root or the number of a user, 1 to %d, is %s", maxGID, show(string(text)))
	}
	return nil
}

// Bytes is an amount of memory, written as "256Mi".
type Bytes int64

// UnmarshalText reads "256Mi" or a number of bytes.
func (b *Bytes) UnmarshalText(text []byte) error {
	quantity, err := resource.ParseQuantity(string(text))
	value := quantity.Value()
	if err == nil && (value == 0 || value >= minMemory) {
		*b = Bytes(value)
		return nil
	}
	hint := ""
	number := strings.TrimRight(string(text), "Bbm")
	switch {
	case wholeNumber.MatchString(number): // bytes, or thousandths
		for _, unit := range []string{"Mi", "Gi"} {
			if amount, err := resource.ParseQuantity(number + unit); hint == "" && err == nil && amount.Value() >= minMemory && amount.Value() <= maxMeant {
				hint = "; write " + number + unit
			}
		}
	case err != nil && checkQuantity(string(text)) != nil && strings.HasSuffix(string(text), "B"):
		hint = "; write " + binaryOf(strings.TrimSuffix(string(text), "B"))
	}
	return fmt.Errorf("must be an amount of memory of at least 16Mi, such as 256Mi, or 0 for no limit, is %s%s", show(string(text)), hint)
}

// minMemory is the least memory with which a program can be expected to start, in bytes.
const minMemory = 16 << 20

// maxMeant is the most memory that a number without a unit may have been meant for, in bytes.
const maxMeant = 1 << 40

// ProcessPolicy lists what a backend's process may have, whatever Declared is.
// Patterns of paths are those of EditPolicy.
type ProcessPolicy struct {
	// Read are files and directories that it reads.
	Read []string `yaml:"read"`
	// List are directories of which it reads the names of the entries, also in directories below.
	List []string `yaml:"list"`
	// Write are files and directories that it reads and writes.
	Write []string `yaml:"write"`
	// Open are device nodes that it opens.
	Open []string `yaml:"open"`
	// Capabilities are names as in capabilities(7), such as CAP_SYS_ADMIN.
	Capabilities []string `yaml:"capabilities"`
	// SystemCalls are groups as in systemd.exec(5), such as "@raw-io".
	SystemCalls []string `yaml:"systemCalls"`
}

// Policy returns what the process of a backend may have.
func (b *Backend) Policy() sandbox.Policy {
	p := b.Allow.Process
	return sandbox.Policy{
		Mode: b.Sandbox.Mode, AcceptDeclared: b.Allow.Declared == AcceptDeclared,
		User: string(b.Sandbox.User), Memory: int64(b.Sandbox.Memory), PIDs: b.Sandbox.PIDs, CPUWeight: b.Sandbox.CPUWeight,
		Allowed: sandbox.Needs{Read: p.Read, List: p.List, Write: p.Write, Open: p.Open, Interfaces: b.Allow.NetDevices, Capabilities: p.Capabilities, SystemCalls: p.SystemCalls},
	}
}

func (v *validator) sandbox(b *Backend, at string) {
	oneOf(v, at+".sandbox.mode", b.Sandbox.Mode, sandboxModes...)
	v.integer(at+".sandbox.pids", b.Sandbox.PIDs, 16, DefaultPIDs)
	v.integer(at+".sandbox.cpuWeight", b.Sandbox.CPUWeight, 1, 10000)
	allow := at + ".allow.process"
	v.allowed(allow+".read", inventory.UseRead, b.Allow.Process.Read, checkPattern)
	v.allowed(allow+".list", "list", b.Allow.Process.List, checkPattern)
	v.allowed(allow+".write", inventory.UseWrite, b.Allow.Process.Write, checkPattern)
	v.allowed(allow+".open", inventory.UseOpen, b.Allow.Process.Open, checkPattern)
	for i, name := range b.Allow.Process.Capabilities {
		if !sandbox.IsCapability(name) {
			v.report(itemPath(allow+".capabilities", i), "must be a capability such as CAP_SYS_ADMIN, is %s", show(name))
		}
	}
	for i, group := range b.Allow.Process.SystemCalls {
		if groups := sandbox.CallGroups(); !slices.Contains(groups, group) {
			v.report(itemPath(allow+".systemCalls", i), "must be one of %s, is %s%s", strings.Join(groups, ", "), show(group), suggestion.DidYouMean(group, groups))
		}
	}
}
