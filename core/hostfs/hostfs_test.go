package hostfs

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	testhost "github.com/accelmux/accelmux/test/host"
)

// newHost makes a host with files, and with links by their names.
func newHost(t *testing.T, files []string, links map[string]string) Host {
	t.Helper()
	root := t.TempDir()
	for _, name := range append([]string{"dev/x", "proc/self/x", "sys/x"}, files...) {
		write(t, filepath.Join(root, name), "")
	}
	for name, target := range links {
		name = filepath.Join(root, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o755), os.Symlink(target, name)); err != nil {
			t.Fatal(err)
		}
	}
	return Host{Devfs: filepath.Join(root, "dev"), Sysfs: filepath.Join(root, "sys"), Procfs: filepath.Join(root, "proc")}
}

func write(t *testing.T, name, text string) {
	t.Helper()
	if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o755), os.WriteFile(name, []byte(text), 0o600)); err != nil {
		t.Fatal(err)
	}
}

// Verifies that links are followed as on the host, wherever its trees are for this process.
func TestFind(t *testing.T) {
	h := newHost(t, []string{"dev/acme0", "dev/dri/card0", "run/driver/dev/acme1", "etc/ssl/key", "opt/acme/lib"}, map[string]string{
		"dev/link": "acme0", "dev/abs": "/dev/acme0", "dev/twice": "abs", "dev/dri/by-path": "../dri", "dev/up": "../run/driver/dev/acme1",
		"dev/away": "/run/elsewhere/x", "dev/loop": "loop", "dev/root": "/", "dev/self": "/dev",
		"opt/acme/etc": "/etc", "opt/acme/up": "../../../../etc/ssl", "run/driver/etc": "/etc",
	})
	elsewhere := h
	elsewhere.Devfs = filepath.Join(filepath.Dir(h.Devfs), "dev-of-host")
	if err := os.Rename(h.Devfs, elsewhere.Devfs); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		"/dev/acme0": "/dev/acme0", "/dev/link": "/dev/acme0", "/dev/abs": "/dev/acme0", "/dev/twice": "/dev/acme0",
		"/dev/dri/by-path/card0": "/dev/dri/card0", "/dev/up": "/run/driver/dev/acme1", "/run/driver/dev/acme1": "/run/driver/dev/acme1",
		"/dev/root": "/", "/dev/self": "/dev", "/": "/",
		"/opt/acme/etc": "/etc", "/opt/acme/etc/ssl/key": "/etc/ssl/key", "/opt/acme/up": "/etc/ssl", "/run/driver/etc/ssl": "/etc/ssl",
		// Hidden: what is not there, and what is behind a link to it.
		"/dev/acme7": "?/dev/acme7", "/usr/bin/x": "?/usr/bin/x", "/dev/away": "?/run/elsewhere/x", "/opt/acme/etc/none/x": "?/etc/none/x", "/opt/acme/lib/x": "?/opt/acme/lib/x",
	} {
		f, err := elsewhere.View().Find(path)
		if err != nil {
			t.Errorf("%s: %v", path, err)
			continue
		}
		got := f.Path
		if f.Hidden {
			got = "?" + got
		}
		if got != want {
			t.Errorf("%s is %s, want %s", path, got, want)
		}
	}
	if _, err := elsewhere.View().Find("/dev/loop"); err == nil {
		t.Error("a loop of links is followed")
	}
	if f, err := (Host{}).View().Find("/etc"); err != nil || !f.Hidden {
		t.Errorf("a host of which nothing is visible shows %+v, %v", f, err)
	}
}

// Verifies that no link of the real /proc is followed: it is another one for the process that
// starts a container.
func TestLinksOfProc(t *testing.T) {
	v := Host{Devfs: "/dev", Sysfs: "/sys", Procfs: "/proc"}.View()
	for _, path := range []string{"/proc/self/root/etc", fmt.Sprintf("/proc/%d/cwd", os.Getpid()), "/dev/fd/0", "/proc/mounts"} {
		if f, err := v.Find(path); err == nil || !strings.Contains(err.Error(), "/proc/") {
			t.Errorf("%s is %+v, %v", path, f, err)
		}
	}
	if f, err := v.Find("/proc/version"); err != nil || f.Path != "/proc/version" {
		t.Errorf("/proc/version is %+v, %v", f, err)
	}
}

// mounts writes the mounts of this process: "device root point type", with ~ for the root of the host.
func mounts(t *testing.T, h Host, lines ...string) {
	t.Helper()
	var text strings.Builder
	for i, line := range lines {
		f := strings.Fields(strings.ReplaceAll(line, "~", filepath.Dir(h.Devfs)))
		fmt.Fprintf(&text, "%d 1 %s %s %s rw - %s none rw\n", i, f[0], f[1], f[2], f[3])
	}
	write(t, filepath.Join(h.Procfs, "self/mountinfo"), text.String())
}

// Verifies where the files of usual and unusual nodes are, and that mounts which show what is
// elsewhere do not change that.
func TestPlaces(t *testing.T) {
	type want map[string]string
	for name, tc := range map[string]struct {
		mounts []string
		want   want
	}{
		"bind mounts": {
			[]string{"8:1 / ~ ext4", "0:5 / ~/dev devtmpfs", "0:6 / ~/run tmpfs", "8:1 /etc ~/opt/acme/x ext4", "8:1 / ~/opt/acme/all ext4", "0:5 / ~/opt/acme/dev devtmpfs", "8:1 /etc/ssl ~/run/ssl ext4"},
			want{
				"/opt/acme/x": "/etc", "/opt/acme/x/ssl/key": "/etc/ssl/key", "/opt/acme/all": "/", "/opt/acme/all/etc/ssl": "/etc/ssl", "/opt/acme/dev": "/dev",
				"/run/ssl/key": "/etc/ssl/key", "/run": "/run,/etc/ssl", "/opt/acme": "/opt/acme,/etc,/,/dev", "/etc/ssl": "/etc/ssl",
			},
		},
		"a pod's sub path and its own files": {
			[]string{"8:1 / ~ ext4", "8:1 /opt/acme/x ~/var/lib/kubelet/pods/1/volume-subpaths/x/0 ext4", "8:1 /etc /other ext4"},
			want{"/opt/acme/x": "/opt/acme/x", "/etc/ssl": "/etc/ssl"},
		},
		"a state partition": {
			[]string{"254:0 / ~ ext4", "8:1 / ~/mnt/state ext4", "8:1 /var ~/opt ext4", "8:1 /home ~/home ext4"},
			want{"/opt/acme/x": "/mnt/state/var/acme/x", "/home": "/mnt/state/home", "/etc/ssl": "/etc/ssl"},
		},
		"subvolumes": {
			[]string{"0:31 /@ ~ btrfs", "0:31 /@home ~/home btrfs", "0:31 /@/etc ~/opt/acme/x btrfs"},
			want{"/home": "/home", "/opt/acme/x": "/etc", "/opt/acme/x/ssl": "/etc/ssl", "/etc": "/etc"},
		},
		"one over another": {
			[]string{"8:1 / ~ ext4", "8:1 /etc ~/opt/acme/x ext4", "0:40 / ~/opt/acme/x tmpfs"},
			want{"/opt/acme/x": "/opt/acme/x"},
		},
		"in a container": {[]string{"0:40 / / overlay", "8:1 /opt ~/opt ext4", "8:1 / /elsewhere ext4"}, want{"/opt/acme/x": "/opt/acme/x"}},
		"trees in a container": {
			[]string{"0:40 / / overlay", "8:1 /usr ~/usr ext4", "8:1 /etc ~/usr/acme ext4", "0:6 /acme ~/opt tmpfs", "0:31 /@/home ~/home btrfs", "0:31 /@/run/ssl ~/home/y btrfs", "8:2 /x ~/opt/acme/all ext4", "8:3 / ~/opt/acme/dev ext4"},
			want{"/usr/acme": "/etc", "/usr": "/usr,/etc", "/usr/lib": "/usr/lib", "/opt/acme/x": "/opt/acme/x", "/home/y": "/run/ssl", "/opt/acme/all": "", "/opt/acme": "", "/opt/acme/dev": "/opt/acme/dev"},
		},
		"unknown": {[]string{"8:1 / /other ext4"}, want{"/opt/acme/x": "/opt/acme/x"}},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHost(t, []string{"etc/ssl/key", "opt/acme/x/ssl/key", "opt/acme/all/etc/ssl/y", "opt/acme/dev/y", "run/ssl/key", "home/y", "usr/acme/y", "usr/lib/y"}, nil)
			mounts(t, h, tc.mounts...)
			for path, want := range tc.want {
				f, err := h.View().Find(path)
				if err != nil || f.Hidden {
					t.Errorf("%s: %+v, %v", path, f, err)
					continue
				}
				places, err := f.Places()
				if got := strings.Join(places, ","); err == nil && got != want || (err == nil) != (want != "") {
					t.Errorf("%s is at %q, want %q (%v)", path, got, want, err)
				}
			}
		})
	}
}

// Verifies the same with a mount of the kernel's.
func TestPlacesOfRealMounts(t *testing.T) {
	root := t.TempDir()
	for _, dir := range []string{"dev", "etc/ssl", "opt/x"} {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	at := filepath.Join(root, "opt/x")
	if err := unix.Mount(filepath.Join(root, "etc"), at, "", unix.MS_BIND, ""); errors.Is(err, unix.EPERM) {
		testhost.Lacks(t, "mounts are not allowed here: %v", err)
	} else if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := unix.Unmount(at, 0); err != nil {
			t.Error(err)
		}
	}()
	v := Host{Devfs: "/dev", Procfs: "/proc"}.View()
	for name, want := range map[string][]string{"opt/x": {"etc"}, "opt/x/ssl": {"etc/ssl"}, "opt": {"opt", "etc"}} {
		for i := range want {
			want[i] = filepath.Join(root, want[i])
		}
		f, err := v.Find(filepath.Join(root, name))
		if err != nil || f.Hidden {
			t.Fatal(f, err)
		}
		if places, err := f.Places(); err != nil || !slices.Equal(places, want) {
			t.Errorf("%s is at %q, want %q (%v)", name, places, want, err)
		}
	}
}

// Verifies that nothing is read from file systems that might not answer, unless one of the host's
// trees is on one, and that nothing is known if the mounts cannot be read.
func TestForeignFileSystems(t *testing.T) {
	h := newHost(t, []string{"mnt/a/x", "mnt/b/x", "usr/x"}, map[string]string{"opt": "/mnt/a"})
	for name, tc := range map[string]struct {
		mounts []string
		want   map[string]string
	}{
		"a node": {
			[]string{"0:9 / ~ nfs4", "0:7 / ~/mnt/a nfs4", "0:8 / ~/mnt/b ext4"},
			map[string]string{"/mnt/a": "nfs4", "/mnt/a/x": "nfs4", "/opt/x": "nfs4", "/mnt/b/x": "", "/mnt": "", "/usr/x": ""},
		},
		"trees in a container": {
			[]string{"0:9 / / overlay", "0:9 /usr ~/usr nfs4", "0:8 / ~/mnt ext4", "0:7 / ~/mnt/a fuse.sshfs"},
			map[string]string{"/usr/x": "", "/mnt/b/x": "", "/mnt/a/x": "fuse.sshfs"},
		},
	} {
		mounts(t, h, tc.mounts...)
		for path, foreign := range tc.want {
			if f, err := h.View().Find(path); err != nil || f.Foreign != foreign || f.Hidden != (foreign != "") {
				t.Errorf("%s: %s is %+v, %v, want it on %q", name, path, f, err, foreign)
			}
		}
	}
	write(t, filepath.Join(h.Procfs, "self/mountinfo"), "garbage\n")
	if f, err := h.View().Find("/mnt/b/x"); err == nil {
		t.Errorf("without mounts: %+v", f)
	}
}

// Verifies what numbers are, by sysfs, and by the names of drivers where that has none.
func TestDevices(t *testing.T) {
	h := newHost(t, nil, nil)
	write(t, filepath.Join(h.Sysfs, "dev/char/10:232/uevent"), "MAJOR=10\nMINOR=232\nDEVNAME=kvm\n")
	write(t, filepath.Join(h.Sysfs, "dev/char/226:0/uevent"), "MAJOR=226\nMINOR=0\nDEVNAME=dri/card0\nDEVTYPE=drm_minor\n")
	write(t, filepath.Join(h.Sysfs, "dev/block/10:232/uevent"), "DEVNAME=sdx\n")
	write(t, filepath.Join(h.Procfs, "devices"), "Character devices:\n  1 mem\n  4 /dev/vc/0\n  4 tty\n136 pts\n195 nvidia\n195 nvidia\n\nBlock devices:\n  7 loop\n")
	for number, want := range map[[2]uint32]string{
		{10, 232}: "/dev/kvm exact", {226, 0}: "/dev/dri/card0 exact", {1, 3}: "/dev/null exact", {1, 9}: "/dev/urandom exact",
		{1, 1}: "/dev/mem", {4, 7}: "/dev/vc/0,/dev/tty", {136, 2}: "/dev/pts", {195, 255}: "/dev/nvidia", {7, 0}: "", {300, 1}: "",
	} {
		f := &File{Number: unix.Mkdev(number[0], number[1]), view: h.View()}
		names, exact, err := f.Devices()
		got := strings.Join(names, ",")
		if exact {
			got += " exact"
		}
		if err != nil || got != want {
			t.Errorf("%v is %q, want %q (%v)", number, got, want, err)
		}
		f = h.View().Made("/dev/x", true, number[0], number[1])
		if names, exact, err = f.Devices(); err != nil || exact != (number == [2]uint32{10, 232}) || strings.Join(names, ",") != map[bool]string{true: "/dev/sdx"}[exact] {
			t.Errorf("block device %v is %q, exact %v (%v)", number, names, exact, err)
		}
	}
}

// Verifies that a digest is that of the file's content.
func TestDigest(t *testing.T) {
	h := newHost(t, []string{"usr/bin/hook"}, nil)
	v := h.View()
	f, err := v.Find("/usr/bin/hook")
	if err != nil {
		t.Fatal(err)
	}
	const empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
	if digest, err := f.Digest(); digest != empty || err != nil {
		t.Errorf("%s, %v", digest, err)
	}
	if f, err = v.Find("/usr/bin"); err != nil {
		t.Fatal(err)
	}
	if digest, err := f.Digest(); err == nil {
		t.Errorf("a directory has the digest %s", digest)
	}
}
