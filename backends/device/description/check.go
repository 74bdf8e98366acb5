package description

import (
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/accelmux/accelmux/backends/device/expression"
	"github.com/accelmux/accelmux/backends/device/match"
	"github.com/accelmux/accelmux/backends/sdk"
	backendv1 "github.com/accelmux/accelmux/proto/accelmux/backend/v1"
)

// The bounds of a description.
const (
	// minWithin and maxWithin bound the time between heartbeats; the default is 1 minute.
	minWithin, maxWithin, defaultWithin = time.Second, time.Hour, time.Minute
)

var (
	kindName      = regexp.MustCompile(`^[a-z]([a-z0-9-]{0,30}[a-z0-9])?$`)
	attributeName = regexp.MustCompile(`^([a-z0-9]([a-z0-9.-]{0,61}[a-z0-9])?/)?[A-Za-z_][A-Za-z0-9_]{0,31}$`)
	envName       = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_.-]*$`)
	metricName    = regexp.MustCompile(`^[a-z][a-z0-9]*(_[a-z0-9]+)*$`)
	infoName      = regexp.MustCompile(`^[a-z]+(-[a-z]+)*$`)
	// Its bounds take 1 ms to compile, which few starts need.
	resourceName = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`^[a-z0-9][a-z0-9.-]{0,252}/[A-Za-z0-9][A-Za-z0-9._-]{0,62}$`)
	})
)

// recoveries and reaches are the words for them.
var (
	recoveries = map[string]sdk.Recovery{
		"": sdk.RecoverySelf, "self": sdk.RecoverySelf, "reset": sdk.RecoveryReset,
		"reboot": sdk.RecoveryReboot, "replacement": sdk.RecoveryReplacement,
	}
	reaches = map[string]backendv1.Reach{
		"": backendv1.Reach_REACH_UNSPECIFIED, "newHolders": sdk.ReachNewHolders, "device": sdk.ReachDevice, "holders": sdk.ReachHolders,
	}
)

// checker compiles a kind, and adds what is wrong with it.
type checker struct {
	errs *sdk.FieldErrors
}

func (c checker) add(at, format string, args ...any) { c.errs.Add(at, format, args...) }

// program compiles an expression; nil if it is wrong.
func (c checker) program(at, text string, want expression.Want) *expression.Program {
	p, err := expression.Compile(text, want)
	if err != nil {
		c.add(at, "%v", err)
	}
	return p
}

// template compiles a template that may be empty; nil if it is, or is wrong.
func (c checker) template(at, text string, want expression.Want) *expression.Template {
	if text == "" {
		return nil
	}
	t, err := expression.CompileTemplate(text, want)
	if err != nil {
		c.add(at, "%v", err)
	}
	return t
}

// file compiles the path of a file: below the object, or below /sys.
func (c checker) file(at, text string) *expression.Template {
	t := c.template(at, text, expression.Text)
	if t == nil {
		return nil
	}
	p := t.Pattern()
	if path.IsAbs(p) && !strings.HasPrefix(p, "/sys/") || path.Clean(p) != p || strings.HasPrefix(p, "..") {
		c.add(at, "%q must be a path below the object, such as device/reset, or one below /sys, without . or ..", text)
	}
	return t
}

// hostPath compiles the path of a file on the host that a container gets, below a directory.
func (c checker) hostPath(at, text, below string, want expression.Want) *expression.Template {
	t := c.template(at, text, want)
	if t == nil {
		return nil
	}
	// A path that is an expression alone, as {node}, is checked when it is known.
	if p := t.Pattern(); p != "*" && (!strings.HasPrefix(p, below) || p == below || path.Clean(p) != p) {
		c.add(at, "%q must be an absolute path below %s, without . or ..", text, below)
	}
	return t
}

// containerPaths checks that no two nodes or mounts have the same path in the container, as far as
// that does not depend on the device.
func (c checker) containerPaths(at string, k *Compiled) {
	first := map[string]string{} // by the path in the container
	check := func(what string, path, inside *expression.Template) {
		if inside == nil {
			inside = path
		}
		if inside == nil || !inside.Constant() {
			return
		}
		if other := first[inside.Pattern()]; other != "" {
			c.add(at+"."+what, "%q in the container is that of %s, too: give one of them another containerPath, or leave it out", inside.Pattern(), other)
			return
		}
		first[inside.Pattern()] = what
	}
	for i, n := range k.Nodes {
		check(fmt.Sprintf("nodes[%d]", i), n.Path, n.ContainerPath)
	}
	for i, m := range k.Mounts {
		check(fmt.Sprintf("mounts[%d]", i), m.Path, m.ContainerPath)
	}
}

// interfaceName compiles the name of a network interface.
func (c checker) interfaceName(at, text string) *expression.Template {
	t := c.template(at, text, expression.Text)
	if t != nil && (strings.ContainsAny(t.Pattern(), "/: \t\n") || t.Constant() && len(text) > 15) {
		c.add(at, "%q must be the name of a network interface, of at most 15 characters without /, : and space", text)
	}
	return t
}

// hardware checks the hardware of a kind.
func (c checker) hardware(at string, h *Hardware) {
	if h != nil {
		(&match.Selector{PCI: h.PCI}).Check(at, c.errs)
	}
}

// one checks that exactly one of the fields is given.
func (c checker) one(at string, given map[string]bool) {
	names := slices.Sorted(maps.Keys(given))
	all := strings.Join(names, ", ")
	names = slices.DeleteFunc(names, func(name string) bool { return !given[name] })
	switch len(names) {
	case 1:
	case 0:
		c.add(at, "give one of %s", all)
	default:
		c.add(at, "it has %s: give one of them, and an element for each of the others", strings.Join(names, " and "))
	}
}

// key returns the path of a member of a map.
func key(at, name string) string {
	if envName.MatchString(name) {
		return at + "." + name
	}
	return at + "[" + strconv.Quote(name) + "]"
}

// CheckNames adds errors of the names of kinds, whose path is at.
func CheckNames(at string, names []string, errs *sdk.FieldErrors) {
	for i, name := range names {
		path := fmt.Sprintf("%s[%d].name", at, i)
		if !kindName.MatchString(name) {
			errs.Add(path, "%q must be a DNS label of at most 32 characters that begins with a letter, such as acme-npu", name)
		} else if slices.Contains(names[:i], name) {
			errs.Add(path, "%q is there twice: keep one, or give the other a name of its own", name)
		}
	}
}
