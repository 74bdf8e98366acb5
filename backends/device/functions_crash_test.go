package device

import (
	"cmp"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/accelmux/accelmux/backends/uevent"
	backendv1 "github.com/accelmux/accelmux/proto/accelmux/backend/v1"
)

// After a crash that follows any write the next process makes the function for the same holder, or removes all: when the
// process of Prepare crashed, and when that of Release did.
func TestFunctionsAfterACrash(t *testing.T) {
	t.Parallel()
	for _, during := range []string{"Prepare", "Release"} {
		for at, last := 0, false; !last; at++ {
			for _, again := range []bool{true, false} {
				run(t, "", port, functionsOfPort, func(r *rig) {
					r.wantFunctions(f0+" potential", f1+" potential", f2+" potential")
					writes := 0
					records := filepath.Join(r.tree.Root, "records")
					crash := func(path, text string) (err error) {
						if writes++; writes <= at {
							err = r.pciBus(path, text)
						}
						if writes == max(at, 1) {
							err = os.Rename(records, records+" then") // what the process does further is in no record
						}
						if writes >= at {
							err = cmp.Or(err, errors.New("killed"))
						}
						return err
					}
					if during == "Release" {
						if _, err := r.make("x", f0); err != nil {
							t.Fatal(err)
						}
						r.write = crash
						last = r.unmake("x", f0) == ""
					} else {
						r.write = crash
						_, err := r.make("x", f0)
						last = err == nil
					}
					r.write = r.pciBus
					if writes >= max(at, 1) {
						if err := errors.Join(os.RemoveAll(records), os.Rename(records+" then", records)); err != nil {
							r.t.Fatal(err)
						}
					}
					r.start(functionsOfPort)
					r.device(f0, "is listed", func(d *backendv1.Device) bool { return d.GetMadeFor() == "x" || d.GetPotential() })
					if again {
						if res, err := r.make("x", f0); err != nil || len(res.GetEdits()) != 1 || r.driverOf(f0) != "vfio-pci" {
							t.Errorf("%s, write %d: Prepare = %v, %v", during, at, res, err)
						}
					}
					if m := r.unmake("x", f0); m != "" || r.content(numVFs) != "0" {
						t.Errorf("%s, write %d: %q, %s functions", during, at, m, r.content(numVFs))
					}
					r.wantFunctions(f0+" potential", f1+" potential", f2+" potential")
				})
			}
		}
	}
}

// For any sequence of claims, of functions that are made and removed by hand, and of restarts, what is listed as
// potential and healthy can be made, what is not cannot, and functions are there only while a claim has one or as
// they were made by hand.
func TestSequencesOfFunctions(t *testing.T) {
	t.Parallel()
	all := []string{f0, f1, f2}
	for seed := range uint64(6) {
		run(t, "", port, functionsOfPort, func(r *rig) {
			random, claims, byHand := rand.New(rand.NewPCG(seed, 1)), map[string]string{}, 0
			r.wantFunctions(f0+" potential", f1+" potential", f2+" potential")
			var steps []string
			for range 25 {
				i := random.IntN(len(all))
				f := all[i]
				switch holder := "claim-" + f; random.IntN(6) {
				case 0, 1:
					steps = append(steps, "claim "+f)
					can := byHand == 0 || i < byHand
					if _, err := r.make(holder, f); (err == nil) != can {
						r.t.Fatalf("seed %d, %q: can be made: %v, but %v", seed, steps, can, err)
					}
					if can {
						claims[f] = holder
					}
				case 2, 3:
					steps = append(steps, "end "+f)
					if m := r.unmake(holder, f); m != "" {
						r.t.Fatalf("seed %d, %q: %s", seed, steps, m)
					}
					delete(claims, f)
				case 4:
					if len(claims) > 0 {
						continue
					}
					steps = append(steps, "by hand")
					if byHand = (1 + i) * random.IntN(2); r.setFunctions("0") != nil || r.setFunctions(strconv.Itoa(byHand)) != nil {
						r.t.Fatal("the kernel refuses")
					}
					r.change("", uevent.Add, "/devices/pci0000:3a/"+f0, "pci")
				case 5:
					steps = append(steps, "restart")
					r.start(functionsOfPort)
				}
				var want []string
				for i, f := range all {
					switch {
					case i < byHand:
						want = append(want, f+" by hand")
					case byHand > 0:
						want = append(want, f+" potential too-few-functions")
					default:
						want = append(want, f+" "+cmp.Or(claims[f], "potential"))
					}
				}
				r.wantFunctions(want...)
				there := byHand
				if byHand == 0 && len(claims) > 0 {
					there = 3
				}
				if n := r.content(numVFs); n != strconv.Itoa(there) {
					r.t.Fatalf("seed %d, %q: %s functions, want %d", seed, steps, n, there)
				}
			}
		})
	}
}
