package sysroot

import (
	"os"
	"testing"
)

// Files makes files below a directory of a test, as a [Writer] does. An error ends the test.
type Files struct {
	Root string
	tb   testing.TB
}

// NewFiles returns the files of a new directory, which goes when the test ends.
func NewFiles(tb testing.TB) Files {
	tb.Helper()
	return Files{Root: tb.TempDir(), tb: tb}
}

// Path is where a name is on disk.
func (f Files) Path(name string) string { return (&Writer{Root: f.Root}).Path(name) }

// File makes a file, and the directories above it.
func (f Files) File(name, text string) {
	f.tb.Helper()
	f.write(func(w *Writer) { w.File(name, text) })
}

// Program makes an executable file, and returns its path.
func (f Files) Program(name, text string) string {
	f.tb.Helper()
	f.write(func(w *Writer) {
		w.File(name, text)
		w.Do(os.Chmod(w.Path(name), 0o755))
	})
	return f.Path(name)
}

// Link makes a link whose target is as given.
func (f Files) Link(name, target string) {
	f.tb.Helper()
	f.write(func(w *Writer) { w.Link(name, target) })
}

// Remove removes a file, or a directory with all that is in it.
func (f Files) Remove(name string) {
	f.tb.Helper()
	f.write(func(w *Writer) { w.Remove(name) })
}

// PCI makes a PCI device in the sysfs at dir, and its driver unless that is "". Files are its
// attributes, such as class and vendor.
func (f Files) PCI(dir, address, driver string, files map[string]string) {
	f.tb.Helper()
	f.write(func(w *Writer) {
		at := dir + "/bus/pci/devices/" + address
		for name, text := range files {
			w.File(at+"/"+name, text+"\n")
		}
		if driver != "" {
			w.Link(at+"/driver", "../../../../bus/pci/drivers/"+driver)
		}
	})
}

func (f Files) write(what func(*Writer)) {
	f.tb.Helper()
	w := &Writer{Root: f.Root}
	if what(w); w.Err != nil {
		f.tb.Fatal(w.Err)
	}
}
