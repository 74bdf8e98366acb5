package device

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/accelmux/accelmux/test/devicetree"
)

// declared are the presets whose devices may have nothing but a number that the kernel or a driver counts:
// their files have a comment that begins with "countedID:".
var declared = []string{"ascend", "aws-neuron", "cambricon", "furiosa", "rebellions", "socketcan", "sound", "sriov-sf", "video4linux"}

// Whatever the order in which the kernel finds its devices, each preset gives the same hardware the same ID,
// unless the device says that its ID is counted, which only the presets do that declare it.
func TestIDsDoNotDependOnProbing(t *testing.T) {
	t.Parallel()
	for _, name := range presetNames(t) {
		text, err := os.ReadFile(filepath.Join("presets/testdata", name+".tree"))
		if err != nil {
			t.Fatal(err)
		}
		file, err := os.ReadFile(filepath.Join("presets", name+".yaml"))
		if err != nil {
			t.Fatal(err)
		}
		declares := slices.Contains(declared, name)
		if strings.Contains(string(file), "\n# countedID: ") != declares {
			t.Errorf("%s: whether its file has a comment countedID is not %v", name, declares)
		}
		for order, number := range map[string]func(int) int{
			"as in the file": func(n int) int { return n },
			"later":          func(n int) int { return n + 9 }, // numbers of one digit get two
			"reversed": func(n int) int {
				if n < 128 {
					return 127 - n
				}
				return 400 - n // render nodes begin with 128
			},
		} {
			t.Run(name+"/"+order, func(t *testing.T) {
				t.Parallel()
				settings := `{"presets": ["` + name + `"], "edits": {"groups": "none"}}`
				first, counted := identified(t, string(text), settings)
				second, _ := identified(t, probed(string(text), number), settings)
				if counted && !declares {
					t.Error("a device has a counted ID, which the preset does not declare")
				}
				for objects, id := range first {
					paths := strings.Split(probed(objects, number), " ")
					slices.Sort(paths)
					if other := second[strings.Join(paths, " ")]; other != id {
						t.Errorf("%s: its ID is %s, and then %q", objects, id, other)
					}
				}
			})
		}
	}
}

// identified returns the IDs of devices by their objects, but those that are counted.
func identified(t *testing.T, tree, settings string) (ids map[string]string, counted bool) {
	t.Helper()
	_, set := on(t, devicetree.New(t, tree).Host(), settings)
	driver, _ := set.Drivers[0].(source)
	scan := driver.Scan(nil)
	ids = map[string]string{}
	for _, u := range scan.Units {
		objects := slices.Sorted(slices.Values(u.Objects))
		if readingIn(u.Devices[0]).attributes["countedID"].GetBoolValue() {
			counted = true
			continue
		}
		ids[strings.Join(objects, " ")] = u.ID
	}
	return ids, counted
}

// named are names of sysfs and /dev with a number that is counted: of devices (drivers/base/core.c numbers
// none, its callers do), with what is on them.
var named = regexp.MustCompile(`^((?:video|media|vbi|v4l-subdev|ttyUSB|ttyACM|card|renderD|controlC|(?:pcm|hw|midi|ump)C|apex_|accel|accel_controlD|` +
	`hailo|dlb|rbln|neuron|davinci|cambricon_dev|cambricon_ipcm|rngd!npu|npu|dsa|iax|(?:dsa!|iax!)?wq|tenstorrent!|uio|hwmon|` +
	`mlx5_|uverbs|umad|issm|can|vcan|usb|mlx5_core\.sf\.|xhci-hcd\.|vfio))([0-9]+)((?:[-.!DmcpC].*)?)$`)

var (
	onUSB       = regexp.MustCompile(`^([0-9]+)(-[0-9.]+(?::[0-9.]+)?)$`)
	inDirectory = regexp.MustCompile(`(iommu_groups/|dev/vfio/|bus/usb/|dev/tenstorrent/|DEVNAME=tenstorrent/)([0-9]+)\b`)
	token       = regexp.MustCompile(`[^/ =\\\n]+`)
)

// probed returns the lines of a tree, or paths in it, as they are with other numbers.
func probed(text string, number func(int) int) string {
	renumber := func(digits string) string {
		n, _ := strconv.Atoi(digits)
		return fmt.Sprintf("%0*d", len(digits), number(n))
	}
	text = inDirectory.ReplaceAllStringFunc(text, func(s string) string {
		parts := inDirectory.FindStringSubmatch(s)
		return parts[1] + renumber(parts[2])
	})
	return token.ReplaceAllStringFunc(text, func(s string) string {
		word := strings.TrimSuffix(s, ":")
		if parts := onUSB.FindStringSubmatch(word); parts != nil {
			return renumber(parts[1]) + parts[2] + s[len(word):]
		}
		if parts := named.FindStringSubmatch(word); parts != nil {
			return parts[1] + renumber(parts[2]) + parts[3] + s[len(word):]
		}
		return s
	})
}
