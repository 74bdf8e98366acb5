package hostfs

import (
	"cmp"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/moby/sys/mountinfo"
)

// View is the host's files as they are now. It remembers what it found, so that devices with the
// same files cost little: make one for each round of checks. It is not for concurrent use.
type View struct {
	host  Host
	files map[string]found
	// mounts are those of this process, in the order in which they were made, once read. sources are
	// these and, if the host's root is not among them, guesses at its mount from those of the trees;
	// then partial is set. at has the mount that a path is on.
	mounts    []*mountinfo.Info
	sources   []*mountinfo.Info
	partial   bool
	mountsErr error
	read      bool
	at        map[string]*mountinfo.Info
}

type found struct {
	file *File
	err  error
}

// View returns a new view.
func (h Host) View() *View {
	return &View{host: h, files: map[string]found{}, at: map[string]*mountinfo.Info{}}
}

// File is what a path of the host leads to.
type File struct {
	// Path is the path without links. If the file is hidden, links are followed as far as they can
	// be seen.
	Path string
	// Hidden reports that this process cannot see the file: it does not exist, is not in one of
	// the host's trees that this process has, or is on a foreign file system. Mode and all fields
	// after it are zero then.
	Hidden bool
	// Foreign is the type of the file system, such as nfs4, if that is another machine's or a
	// process's. It might never answer, so it is not read. "" for others.
	Foreign string
	Mode    fs.FileMode
	UID     uint32
	GID     uint32
	// Number is that of a device node.
	Number uint64
	// Steps are the directories in which a part of the path, or of the target of a link, was
	// looked up.
	Steps  []Step
	view   *View
	digest string
}

// Step is the lookup of an entry in a directory.
type Step struct {
	// Dir is its path on the host, without links, and Mode and UID are its own.
	Dir  string
	Mode fs.FileMode
	UID  uint32
	// EntryUID owns the entry.
	EntryUID uint32
}

// maxSymlinks is how many links the kernel follows in one path: MAXSYMLINKS in
// include/linux/namei.h.
const maxSymlinks = 40

// Find follows a path of the host, which is absolute and clean. The error is of a path that cannot be
// followed, and completes a phrase that begins with the path. A file that this process cannot see is
// no error, but Hidden.
func (v *View) Find(hostPath string) (*File, error) {
	if v.host.Devfs == "" {
		return &File{Path: hostPath, Hidden: true}, nil
	}
	f, known := v.files[hostPath]
	if !known {
		f.file, f.err = v.find(hostPath)
		v.files[hostPath] = f
	}
	return f.file, f.err
}

// Missing reports whether there is nothing at what a path of the host leads to.
func (v *View) Missing(hostPath string) bool {
	f, err := v.Find(hostPath)
	return err == nil && f.Hidden && f.Foreign == ""
}

func (v *View) find(hostPath string) (*File, error) {
	f := &File{Path: "/", view: v}
	dir, err := os.Stat(v.host.here("/"))
	if err != nil {
		return &File{Path: hostPath, Hidden: true}, nil //nolint:nilerr // that is what it means
	}
	for rest, links := hostPath, 0; rest != ""; {
		var part string
		part, rest, _ = strings.Cut(strings.TrimLeft(rest, "/"), "/")
		next := path.Join(f.Path, part)
		if foreign, err := v.foreign(next); err != nil {
			return nil, err
		} else if foreign != "" {
			return &File{Path: path.Join(next, rest), Hidden: true, Foreign: foreign}, nil
		}
		info, err := os.Lstat(v.host.here(next))
		if next == "/dev" { // Devfs, which may be a link
			info, err = os.Stat(v.host.Devfs)
		}
		if isMissing(err) {
			return &File{Path: path.Join(next, rest), Hidden: true}, nil
		} else if err != nil {
			return nil, fmt.Errorf("cannot be followed: %w", err)
		}
		f.Steps = append(f.Steps, Step{Dir: f.Path, Mode: dir.Mode(), UID: stat(dir).Uid, EntryUID: stat(info).Uid})
		if info.Mode()&fs.ModeSymlink == 0 {
			f.Path, dir = next, info
			continue
		}
		if links++; links > maxSymlinks {
			return nil, fmt.Errorf("has more than %d links", maxSymlinks)
		}
		target, err := v.target(next)
		if err != nil {
			return nil, err
		}
		rest = target + "/" + rest
		if path.IsAbs(target) {
			f.Path = "/"
			if dir, err = os.Stat(v.host.here("/")); err != nil {
				return nil, fmt.Errorf("cannot be followed: %w", err)
			}
		}
	}
	f.Mode, f.UID, f.GID, f.Number = dir.Mode(), stat(dir).Uid, stat(dir).Gid, uint64(stat(dir).Rdev) //nolint:unconvert // 32 bits on some architectures
	return f, nil
}

// stat is only for a FileInfo of package os.
func stat(info fs.FileInfo) *syscall.Stat_t {
	s, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return &syscall.Stat_t{}
	}
	return s
}

// target reads a link. Links in /proc are refused: they differ between the processes that follow them.
func (v *View) target(link string) (string, error) {
	m, err := v.mountOf(link)
	if err != nil {
		return "", err
	}
	if m != nil && m.FSType == "proc" {
		return "", fmt.Errorf("leads through %s, a link that differs between processes", link)
	}
	target, err := os.Readlink(v.host.here(link))
	if err != nil {
		return "", fmt.Errorf("cannot be followed: %w", err)
	}
	return target, nil
}

// foreignTypes are file systems of other machines and of processes, by the beginning of their
// names.
var foreignTypes = []string{"nfs", "cifs", "smb", "ceph", "lustre", "fuse", "9p", "afs", "gfs", "glusterfs", "beegfs", "gpfs", "autofs", "virtiofs"}

// foreign returns File.Foreign of a path. The host's device nodes are never foreign, nor is what is on
// the file system of one of the trees themselves.
func (v *View) foreign(hostPath string) (string, error) {
	if _, dev := relative("/dev", hostPath); dev {
		return "", nil
	}
	m, err := v.mountOf(hostPath)
	if m == nil || !slices.ContainsFunc(foreignTypes, func(prefix string) bool { return strings.HasPrefix(m.FSType, prefix) }) || v.isTree(m) {
		return "", err
	}
	return m.FSType, err
}

// isTree reports whether a mount is not below another mount of the host's.
func (v *View) isTree(m *mountinfo.Info) bool {
	there, ok := v.host.there(m.Mountpoint)
	if !ok || there == "/" {
		return true
	}
	above, _ := v.mountOf(path.Dir(there))
	if above != nil {
		_, ok = v.host.there(above.Mountpoint)
	}
	return above == nil || !ok
}

// readMounts reads the mounts of this process.
func (v *View) readMounts() error {
	if v.read || v.host.Procfs == "" {
		return v.mountsErr
	}
	v.read = true
	file, err := os.Open(filepath.Join(v.host.Procfs, "self/mountinfo"))
	if err == nil {
		v.mounts, err = mountinfo.GetMountsFromReader(file, nil)
		_ = file.Close()
	}
	if err != nil && !isMissing(err) {
		v.mountsErr = fmt.Errorf("cannot be followed, as the mounts of this process are not known: %w", err)
	}
	v.sources = slices.Clone(v.mounts)
	v.partial = len(v.mounts) > 0 && !slices.ContainsFunc(v.mounts, func(m *mountinfo.Info) bool { return m.Mountpoint == v.host.here("/") })
	for _, m := range v.mounts {
		// A tree at /usr that is /usr in its file system: that is probably the one at / of the host.
		if there, ok := v.host.there(m.Mountpoint); v.partial && ok && there != "/" && strings.HasSuffix(m.Root, there) {
			v.sources = append(v.sources, &mountinfo.Info{Major: m.Major, Minor: m.Minor, Root: cmp.Or(strings.TrimSuffix(m.Root, there), "/"), Mountpoint: v.host.here("/")})
		}
	}
	return v.mountsErr
}

// mountOf returns the mount that a path of the host is on; nil if that is not known.
func (v *View) mountOf(hostPath string) (*mountinfo.Info, error) {
	err := v.readMounts()
	best, known := v.at[hostPath]
	if known {
		return best, err
	}
	here := v.host.here(hostPath)
	for _, m := range v.mounts {
		// Of two on the same directory the later hides the other.
		if _, ok := relative(m.Mountpoint, here); ok && (best == nil || len(m.Mountpoint) >= len(best.Mountpoint)) {
			best = m
		}
	}
	v.at[hostPath] = best
	return best, err
}

// Places returns the paths of the file, and then of each mount below it, without bind mounts: a path in
// the mount that shows the largest part of the same file system. A path is unchanged if no other mount
// shows more, or if the mounts are not known. The error completes a phrase that begins with the path: the
// mounts cannot be read, or this process does not see what a bind mount is from. The first path is returned
// anyway.
func (f *File) Places() ([]string, error) {
	m, err := f.view.mountOf(f.Path)
	if err != nil || m == nil {
		return []string{f.Path}, err
	}
	below, _ := relative(m.Mountpoint, f.view.host.here(f.Path))
	place, err := f.view.place(m, below, f.Path)
	places := []string{place}
	if err != nil {
		return places, err
	}
	for _, inner := range f.view.mounts {
		there, ok := f.view.host.there(inner.Mountpoint)
		if _, inside := relative(f.Path, there); ok && inside && there != f.Path {
			if place, err = f.view.place(inner, "", there); err != nil {
				return places, err
			}
			places = append(places, place)
		}
	}
	return places, nil
}

// place returns the path, in the mount that shows the largest part of the file system of m, of what is below
// the root of m; hostPath if no other mount shows more. The error is that of Places.
func (v *View) place(m *mountinfo.Info, below, hostPath string) (string, error) {
	within := filepath.Join(m.Root, below)
	root, point := m.Root, m.Mountpoint
	for _, o := range v.sources {
		rest, ok := relative(o.Root, within)
		if o.Major != m.Major || o.Minor != m.Minor || !ok || len(o.Root) > len(root) || len(o.Root) == len(root) && len(o.Mountpoint) >= len(point) {
			continue
		}
		if there, ok := v.host.there(filepath.Join(o.Mountpoint, rest)); ok {
			root, point, hostPath = o.Root, o.Mountpoint, there
		}
	}
	if root == m.Root && root != "/" && v.partial && !v.isTree(m) {
		there, _ := v.host.there(m.Mountpoint)
		return hostPath, fmt.Errorf("is on a mount at %s of a directory that the agent's container does not see: add that directory, or /, to hostPaths.edits of the chart", there)
	}
	return hostPath, nil
}
