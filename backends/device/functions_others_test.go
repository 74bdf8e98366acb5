package device

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/accelmux/accelmux/backends/uevent"
	backendv1 "github.com/accelmux/accelmux/proto/accelmux/backend/v1"
)

// withProblem waits until a problem has the text.
func (r *rig) withProblem(text string) {
	r.t.Helper()
	has := func(inv *backendv1.Inventory) bool {
		return slices.ContainsFunc(inv.GetProblems(), func(p string) bool { return strings.Contains(p, text) })
	}
	if !has(r.Last) {
		r.Until("a problem has "+text, has)
	}
}

// While a claim has a function of a card, kinds without functions leave out the other functions of that card and
// the card itself: they would be removed with the claim's.
func TestKindsWithoutFunctionsOnACard(t *testing.T) {
	t.Parallel()
	kinds := `{"edits": {"groups": "none"}, "kinds": [
		{"preset": "sriov", "match": {"pci": {"classes": ["02"]}, "where": "pci.virtualIndex < 1"}, "functions": {"count": 3}, "prepare": [{"bind": {"driver": "vfio-pci"}}]},
		{"name": "rest", "match": {"pci": {"devices": ["0018"]}, "where": "pci.virtualIndex >= 1"}, "edits": {"env": {"A": "b"}}},
		{"name": "pf", "match": {"pci": {"devices": ["1017"]}}, "edits": {"env": {"A": "b"}}}]}`
	const pf = "pf-0000:3b:00.0 by hand"
	run(t, "", port, kinds, func(r *rig) {
		r.wantFunctions(pf, f0+" potential")
		if _, err := r.make("x", f0); err != nil {
			t.Fatal(err)
		}
		r.change("", uevent.Add, "/devices/pci0000:3a/"+f1, "pci")
		r.withProblem(f1 + " is left out: kind rest: functions of the card 0000:3b:00.0 were made for claims that have not ended, and this kind has no functions")
		r.withProblem("0000:3b:00.0 is left out: kind pf: ")
		r.device("pf-0000:3b:00.0", "is not given out", func(d *backendv1.Device) bool { return !healthy(d) })
		r.device("rest-"+f1, "is not listed", nil)
		if m := r.unmake("x", f0); m != "" || r.content(numVFs) != "0" {
			t.Errorf("%q, %s functions", m, r.content(numVFs))
		}
		r.change("", uevent.Remove, "/devices/pci0000:3a/"+f1, "pci")
		r.wantFunctions(pf, f0+" potential")
		if err := r.setFunctions("2"); err != nil {
			t.Fatal(err)
		}
		r.change("", uevent.Add, "/devices/pci0000:3a/"+f1, "pci")
		r.wantFunctions(pf, f0+" by hand", "rest-"+f1+" by hand")
	})
}

// A function stays its holder's when functions is taken out of the kind, and it is removed when the kind itself is, also
// in the next process.
func TestSettingsWithoutFunctions(t *testing.T) {
	t.Parallel()
	run(t, "", port, functionsOfPort, func(r *rig) {
		r.wantFunctions(f0+" potential", f1+" potential", f2+" potential")
		claim := func() {
			t.Helper()
			if _, err := r.make("x", f0); err != nil {
				t.Fatal(err)
			}
		}
		ended := func() {
			t.Helper()
			if m := r.unmake("x", f0); m != "" || r.content(numVFs) != "0" {
				t.Errorf("%q, %s functions", m, r.content(numVFs))
			}
		}
		claim()
		r.start(`{"edits": {"groups": "none"}, "presets": ["sriov"]}`)
		r.wantFunctions(f0 + " x")
		r.withProblem(f1 + " is left out: kind sriov: ")
		if n := len(r.device(f0, "is listed", healthy).GetHooks()); n != 2 {
			t.Errorf("it has %d hooks", n)
		}
		claim() // once more
		ended()
		r.configure(functionsOfPort)
		r.wantFunctions(f0+" potential", f1+" potential", f2+" potential")
		claim()
		r.start(`{}`)
		ended()
	})
}

// A process that died between making functions and binding them leaves one that does not match its kind yet. It is
// its holder's, and can be prepared again, also if the kind has fewer functions now.
func TestFunctionThatIsNotBoundYet(t *testing.T) {
	t.Parallel()
	bound := strings.Replace(functionsOfPort, `"functions": {"count": 4`, `"match": {"pci": {"vendors": ["15b3"], "drivers": ["vfio-pci"]}, "where": "pci.has('physfn')"}, "functions": {"count": 2`, 1)
	run(t, "", port, functionsOfPort, func(r *rig) {
		if err := r.setFunctions("3"); err != nil {
			t.Fatal(err)
		}
		r.tree.Change(t, `records/.functions-one: {"0000:3b:00.0/2/`+f2+`": "x"}`)
		r.start(bound)
		r.wantFunctions(f0+" potential", f1+" potential", f2+" x")
		if res, err := r.make("x", f2); err != nil || len(res.GetEdits()) != 1 || r.driverOf(f2) != "vfio-pci" {
			t.Errorf("Prepare = %v, %v", res, err)
		}
		if m := r.unmake("x", f2); m != "" || r.content(numVFs) != "0" {
			t.Errorf("%q, %s functions", m, r.content(numVFs))
		}
	})
}

// Functions that are made by hand while a claim is prepared stay.
func TestFunctionsByHandMeanwhile(t *testing.T) {
	t.Parallel()
	run(t, "", port, functionsOfPort, func(r *rig) {
		r.wantFunctions(f0+" potential", f1+" potential", f2+" potential")
		r.tree.Change(t, numVFs+": 3") // and their links come later
		if _, err := r.make("x", f0); err == nil || !strings.Contains(err.Error(), "3 virtual functions of 0000:3b:00.0 were made by hand meanwhile") {
			t.Errorf("Prepare = %v", err)
		}
		r.tree.Change(t, numVFs+": 0")
		r.write = func(path, text string) error {
			if filepath.Base(path) == "sriov_numvfs" && text == "3" {
				if err := r.setFunctions("2"); err != nil {
					t.Error(err)
				}
			}
			return r.pciBus(path, text)
		}
		if _, err := r.make("x", f0); err == nil || !strings.Contains(err.Error(), "device or resource busy") {
			t.Errorf("Prepare = %v", err)
		}
		if n := r.content(numVFs); n != "2" {
			t.Errorf("%s functions", n)
		}
		r.change("", uevent.Add, "/devices/pci0000:3a/"+f0, "pci")
		r.wantFunctions(f0+" by hand", f1+" by hand", f2+" potential too-few-functions")
	})
}

// Release returns in time though the kernel does not, also for a function whose kind went.
func TestFunctionsAreRemovedInTime(t *testing.T) {
	t.Parallel()
	run(t, "", port, functionsOfPort, func(r *rig) {
		r.wantFunctions(f0+" potential", f1+" potential", f2+" potential")
		if _, err := r.make("x", f0); err != nil {
			t.Fatal(err)
		}
		r.start(`{}`)
		kernel := make(chan struct{})
		r.write = func(path, text string) error {
			<-kernel
			return r.pciBus(path, text)
		}
		if m := r.unmake("x", f0); !strings.Contains(m, f0+" is being removed") {
			t.Errorf("Release: %q", m)
		}
		close(kernel)
		if m := r.unmake("x", f0); m != "" || r.content(numVFs) != "0" {
			t.Errorf("%q, %s functions", m, r.content(numVFs))
		}
	})
}

// A call that waited for a Release on the same card, which went on after its time was up, finds what that left: a Release
// removes nothing that another claim has, and Prepare makes what went.
func TestFunctionsAreRemovedOnce(t *testing.T) {
	t.Parallel()
	run(t, "", port, functionsOfPort, func(r *rig) {
		r.wantFunctions(f0+" potential", f1+" potential", f2+" potential")
		for holder, f := range map[string]string{"x": f0, "y": f1} {
			if _, err := r.make(holder, f); err != nil {
				t.Fatal(err)
			}
		}
		kernel := make(chan struct{})
		r.write = func(path, text string) error {
			<-kernel
			return r.pciBus(path, text)
		}
		if m := r.unmake("x", f0); !strings.Contains(m, f0+" is being removed") {
			t.Errorf("Release: %q", m)
		}
		time.AfterFunc(time.Second, func() { close(kernel) })
		if m := r.unmake("x", f0); m != "" || r.content(numVFs) != "3" {
			t.Errorf("%q, %s functions", m, r.content(numVFs))
		}
		r.wantFunctions(f0+" potential", f1+" y", f2+" potential")
		kernel = make(chan struct{})
		if m := r.unmake("y", f1); !strings.Contains(m, f1+" is being removed") {
			t.Errorf("Release: %q", m)
		}
		time.AfterFunc(time.Second, func() { close(kernel) })
		if _, err := r.make("z", f2); err != nil || r.content(numVFs) != "3" {
			t.Errorf("Prepare: %v, %s functions", err, r.content(numVFs))
		}
		r.wantFunctions(f0+" potential", f1+" potential", f2+" z")
	})
}

// Of a card that cannot be read no function is given out as an ordinary device; those of other cards stay as they are.
func TestFunctionsOfACardThatCannotBeRead(t *testing.T) {
	t.Parallel()
	const other = "0000:3c:00.2 potential"
	run(t, "", port+strings.ReplaceAll(port, "0000:3b", "0000:3c"), strings.Replace(functionsOfPort, `"count": 4`, `"count": 1`, 1), func(r *rig) {
		r.wantFunctions(f0+" potential", other)
		if err := r.setFunctions("3"); err != nil {
			t.Fatal(err)
		}
		r.change("- "+portDir+"sriov_totalvfs\n"+portDir+"sriov_totalvfs: x", uevent.Add, "/devices/pci0000:3a/"+f0, "pci")
		r.withProblem("0000:3b:00.0 is left out: kind sriov: so are its virtual functions: ")
		r.wantFunctions(f0+" potential device-incomplete", other)
	})
}
