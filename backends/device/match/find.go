package match

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/accelmux/accelmux/backends/devnode"
	"github.com/accelmux/accelmux/backends/sdk"
	"github.com/accelmux/accelmux/backends/sysfs"
)

// MaxObjects is how many objects of a source are found: as many devices as a backend may have.
const MaxObjects = 4096

// Problem is why an object that matches was left out.
type Problem struct {
	// Name is the object's; empty for a problem of the whole source.
	Name string
	// Err is for operators.
	Err error
}

// Finder finds objects in the host's trees.
type Finder struct {
	Host sdk.HostPaths
	// Node returns the type and the number of a file below /dev; nil: those of stat(2). Tests
	// without privileges cannot make device nodes.
	Node func(path string) (fs.FileMode, devnode.Number, error)
}

// Find returns the objects of a source by name, video9 before video10, and problems with those that were left out. A
// class or a bus that the kernel does not have is no problem: it has no members.
func (f Finder) Find(s *Selector) (found []*Object, problems []Problem) {
	add := func(name string, o *Object, err error) {
		switch {
		case errors.Is(err, fs.ErrNotExist): // it went meanwhile, or lacks what is asked for
		case err != nil:
			problems = append(problems, Problem{name, err})
		case o != nil:
			found = append(found, o)
		}
	}
	switch {
	case s.Class != "":
		f.directory("class/"+s.Class, add, func(o *Object) (bool, error) {
			return anyOf(s.Names, func(pattern string) bool { ok, _ := path.Match(pattern, o.Name); return ok }), nil
		})
	case s.PCI != nil:
		f.directory("bus/pci/devices", add, func(o *Object) (bool, error) {
			at, ok := address(o.Name)
			if !ok {
				return false, nil
			}
			return s.PCI.matches(&Function{*o, at})
		})
	case s.USB != nil:
		f.directory("bus/usb/devices", add, s.USB.matches)
	default:
		f.paths(s.Paths, add)
	}
	slices.SortFunc(found, func(a, b *Object) int { return compareNames(a.Name, b.Name) })
	if n := len(found) - MaxObjects; n > 0 {
		found = found[:MaxObjects]
		problems = append(problems, Problem{"", fmt.Errorf("%d objects are left out, as a backend has at most %d: select fewer", n, MaxObjects)})
	}
	return found, problems
}

// directory finds the members of a directory of sysfs that match.
func (f Finder) directory(dir string, add func(string, *Object, error), matches func(*Object) (bool, error)) {
	entries, err := os.ReadDir(filepath.Join(f.Host.Sysfs, dir))
	if err != nil {
		add("", nil, err)
		return
	}
	for _, entry := range entries {
		if entry.Type().IsRegular() {
			continue // such as a class's attributes
		}
		o, err := f.object(path.Join(dir, entry.Name()))
		if err == nil {
			var ok bool
			if ok, err = matches(o); !ok {
				o = nil
			}
		}
		if o != nil && err == nil {
			err = o.readNode()
		}
		add(entry.Name(), o, err)
	}
}

// paths finds what the first of the patterns matches that matches something.
func (f Finder) paths(patterns []string, add func(string, *Object, error)) {
	for _, pattern := range patterns {
		below, inDev := strings.CutPrefix(pattern, "/dev/")
		root := f.Host.Devfs
		if !inDev {
			below, root = strings.TrimPrefix(pattern, "/sys/"), f.Host.Sysfs
		}
		names, err := glob(root, below)
		if err != nil {
			add("", nil, fmt.Errorf("%s: devices may be missing, as a directory cannot be listed (%w): let every user list it (chmod a+rx), or give the backend sandbox: {user: root}", pattern, err))
		}
		for _, name := range names {
			var o *Object
			if inDev {
				o, err = f.node(name, pattern != path.Join("/dev", name))
			} else if o, err = f.resolve(name); err == nil {
				err = o.readNode()
			}
			add(name, o, err)
		}
		if len(names) > 0 {
			return
		}
	}
}

// object returns the object at a path below the root of sysfs. If that is a link, it leads to
// the directory, as those of classes and buses do.
func (f Finder) object(at string) (*Object, error) {
	o := &Object{Name: path.Base(at), Dir: at, sysfs: f.Host.Sysfs}
	to, err := os.Readlink(filepath.Join(f.Host.Sysfs, at))
	switch {
	case errors.Is(err, syscall.EINVAL):
		return o, nil // the directory itself
	case err != nil:
		return nil, err
	}
	o.Dir = path.Join(path.Dir(at), to)
	if path.IsAbs(to) || o.Dir == ".." || strings.HasPrefix(o.Dir, "../") {
		return nil, fmt.Errorf("it leads out of sysfs, to %q", to)
	}
	return o, nil
}

// resolve is object for a path in which any element may be a link.
func (f Finder) resolve(at string) (*Object, error) {
	root, err := filepath.EvalSymlinks(f.Host.Sysfs)
	if err != nil {
		return nil, err
	}
	real, err := filepath.EvalSymlinks(filepath.Join(root, at))
	if err != nil {
		return nil, err
	}
	below, ok := strings.CutPrefix(real, root+"/")
	if !ok {
		return nil, fmt.Errorf("it leads out of sysfs, to %q", real)
	}
	return &Object{Name: path.Base(at), Dir: below, sysfs: f.Host.Sysfs}, nil
}

// readNode reads the device node of an object from its uevent file, if it has one.
func (o *Object) readNode() error {
	if slices.Contains(strings.Split(o.Dir, "/"), "block") {
		return errors.New("it is a block device, which no container gets: mount a volume instead")
	}
	text, err := sysfs.Attribute(filepath.Join(o.sysfs, o.Dir, "uevent"))
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
		return nil
	}
	if err != nil {
		return err
	}
	var n devnode.Number
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		switch name {
		case "DEVNAME":
			if o.Node = path.Join("/dev", value); !strings.HasPrefix(o.Node, "/dev/") {
				return fmt.Errorf("its device node %q is not below /dev", value)
			}
		case "MAJOR":
			_, err = fmt.Sscan(value, &n.Major)
		case "MINOR":
			_, err = fmt.Sscan(value, &n.Minor)
		}
		if err != nil {
			return fmt.Errorf("the %s %s in its file uevent is no number", name, sysfs.Quote(value))
		}
	}
	if o.Node != "" && n.Major != 0 {
		o.Number = &n
	}
	return nil
}

// glob is [fs.Glob] below a root, with an error for directories that cannot be listed.
func glob(root, pattern string) ([]string, error) {
	lister := &lister{FS: os.DirFS(root)}
	names, err := fs.Glob(lister, pattern)
	return names, errors.Join(err, lister.err)
}

// lister keeps the errors of directories, which [fs.Glob] ignores.
type lister struct {
	fs.FS
	err error
}

// Stat implements [fs.StatFS]: without it [fs.Glob] would open device nodes.
func (l *lister) Stat(name string) (fs.FileInfo, error) { return fs.Stat(l.FS, name) }

// ReadDir implements [fs.ReadDirFS].
func (l *lister) ReadDir(name string) ([]fs.DirEntry, error) {
	entries, err := fs.ReadDir(l.FS, name)
	if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ENOTDIR) {
		l.err = errors.Join(l.err, err)
	}
	return entries, err
}

// memory is the major number of mem, kmem and port, which have the minor numbers 1, 2 and 4; kmsg has 11.
const memory = 1

// isMemory reports whether a node gives control of the whole machine.
func isMemory(n devnode.Number) bool {
	return n.Major == memory && slices.Contains([]uint32{1, 2, 4, 11}, n.Minor)
}

// node returns the object of a device node, by its path below /dev, or of a directory of device nodes.
// Anything but a character device is refused, and so are memory and ports unless the pattern names them.
func (f Finder) node(name string, byPattern bool) (*Object, error) {
	at := path.Join("/dev", name)
	mode, number, err := f.inspect(at)
	switch {
	case err != nil:
		return nil, err
	case mode.IsDir():
		return f.nodes(at, byPattern)
	case mode&fs.ModeDevice != 0 && mode&fs.ModeCharDevice == 0:
		return nil, fmt.Errorf("%s is a block device, which no container gets: mount a volume instead", at)
	case mode&fs.ModeCharDevice == 0:
		return nil, fmt.Errorf("%s is no device but %v", at, mode)
	case byPattern && isMemory(number):
		return nil, fmt.Errorf("%s gives control of the node: write a pattern that leaves it out", at)
	}
	dir := "dev/char/" + number.String()
	o, err := f.object(dir)
	if errors.Is(err, fs.ErrNotExist) && isStatic(name, number) {
		o, err = &Object{Dir: dir, sysfs: f.Host.Sysfs}, nil // its driver is not loaded yet
	}
	if err != nil {
		return nil, fmt.Errorf("%s is the device %s, which the kernel does not have: is it left from an earlier driver? (%v)", at, number, err) //nolint:errorlint // a node without device is a problem, not absent
	}
	o.Name, o.Node, o.Number = path.Base(name), at, &number
	return o, nil
}

// nodes returns the object of a directory below /dev: one for all device nodes in it. A pattern does not
// match a directory without device nodes, such as /dev/snd/by-path.
func (f Finder) nodes(at string, byPattern bool) (*Object, error) {
	below, err := f.Nodes(at)
	switch {
	case err != nil:
		return nil, err
	case len(below) > 0:
		return &Object{Name: path.Base(at), Dir: strings.TrimPrefix(at, "/"), Node: at, sysfs: f.Host.Sysfs}, nil
	case byPattern:
		return nil, nil
	}
	return nil, fmt.Errorf("%s is a directory without device nodes: links in it are not followed, give their paths or a pattern such as %[1]s/*", at)
}

// notDevices are directories whose files are not those of hardware.
var notDevices = []string{"pts", "shm", "fd", "mqueue", ".lxc", ".lxd-mounts", ".udev"}

// Nodes returns the character devices in a directory below /dev, and in the directories below it: those that a
// container runtime gives for the directory (getDevices in pkg/oci/utils_unix.go of containerd), but for memory.
func (f Finder) Nodes(dir string) (nodes []string, err error) {
	entries, err := os.ReadDir(filepath.Join(f.Host.Devfs, strings.TrimPrefix(dir, "/dev/")))
	if err != nil {
		return nil, err
	}
	for _, entry := range entries {
		at, name := path.Join(dir, entry.Name()), entry.Name()
		if entry.IsDir() {
			if slices.Contains(notDevices, name) {
				continue
			}
			more, err := f.Nodes(at)
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				return nil, err
			}
			nodes = append(nodes, more...)
			continue
		}
		if entry.Type()&fs.ModeSymlink != 0 || name == "console" {
			continue
		}
		mode, number, err := f.inspect(at)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		if err == nil && mode&fs.ModeCharDevice != 0 && !isMemory(number) {
			nodes = append(nodes, at)
		}
	}
	return nodes, nil
}

// inspect returns the type and the number of a file by its path below /dev.
func (f Finder) inspect(at string) (fs.FileMode, devnode.Number, error) {
	onHost := filepath.Join(f.Host.Devfs, strings.TrimPrefix(at, "/dev/"))
	if f.Node != nil {
		return f.Node(onHost)
	}
	return stat(onHost)
}

func stat(at string) (fs.FileMode, devnode.Number, error) {
	info, err := os.Stat(at)
	if err != nil {
		return 0, devnode.Number{}, err
	}
	s, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, devnode.Number{}, fmt.Errorf("%s: what it is cannot be seen", at)
	}
	return info.Mode(), devnode.Number{Major: unix.Major(s.Rdev), Minor: unix.Minor(s.Rdev)}, nil
}
