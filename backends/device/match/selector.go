package match

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/accelmux/accelmux/backends/sdk"
)

// Selector selects objects. Exactly one of Paths, Class, PCI and USB is set.
type Selector struct {
	// Paths are patterns as [path.Match] has them, of character devices below /dev, or of
	// directories below /sys. They are alternatives: the first that matches something counts.
	Paths []string `json:"paths"`
	// Class is a class of the kernel: all of /sys/class/CLASS.
	Class string `json:"class"`
	// Names are patterns, as [path.Match] has them, for the names of the class's members. None:
	// all members.
	Names []string `json:"names"`
	PCI   *PCI     `json:"pci"`
	USB   *USB     `json:"usb"`
}

// PCI selects PCI functions. All lists that are not empty must match, each with one element.
// Numbers are hexadecimal without 0x, and their case does not matter.
type PCI struct {
	// Vendors are such as "8086".
	Vendors []string `json:"vendors"`
	// Devices are such as "56c0", or "8086:56c0" with the vendor.
	Devices []string `json:"devices"`
	// Classes are the first 2, 4 or 6 digits of the class code, such as "03" or "0302".
	Classes []string `json:"classes"`
	// Drivers are names of bound kernel drivers; "" is for a function without one.
	Drivers []string `json:"drivers"`
	// Subsystems are vendor and device of the subsystem, such as "8086:4905".
	Subsystems []string `json:"subsystems"`
}

// USB selects USB devices, as [PCI] does functions.
type USB struct {
	// Vendors are such as "0403".
	Vendors []string `json:"vendors"`
	// Products are such as "6001", or "0403:6001" with the vendor.
	Products []string `json:"products"`
	// Serials are patterns, as [path.Match] has them, for serial numbers.
	Serials []string `json:"serials"`
}

var (
	fourDigits  = regexp.MustCompile(`^[0-9a-fA-F]{4}$`)
	withVendor  = regexp.MustCompile(`^([0-9a-fA-F]{4}:)?[0-9a-fA-F]{4}$`)
	bothDigits  = regexp.MustCompile(`^[0-9a-fA-F]{4}:[0-9a-fA-F]{4}$`)
	classDigits = regexp.MustCompile(`^([0-9a-fA-F]{2}){1,3}$`)
	plainName   = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}$`)
)

// Check adds errors of the source, whose path is at.
func (s *Selector) Check(at string, errs *sdk.FieldErrors) {
	var given []string
	for name, is := range map[string]bool{"paths": s.Paths != nil, "class": s.Class != "", "pci": s.PCI != nil, "usb": s.USB != nil} {
		if is {
			given = append(given, name)
		}
	}
	slices.Sort(given)
	switch len(given) {
	case 1:
	case 0:
		errs.Add(at, "it selects nothing: give one of paths, class, pci or usb")
	default:
		errs.Add(at, "it has %s: give one of them, and a kind for each of the others", strings.Join(given, " and "))
	}
	if s.Paths != nil && len(s.Paths) == 0 {
		errs.Add(at+".paths", "it is empty: give a path such as /dev/name[0-9]*")
	}
	each(at+".paths", s.Paths, errs, checkPath)
	if s.Class != "" && !plainName.MatchString(s.Class) {
		errs.Add(at+".class", "%q is no name of a directory in /sys/class, such as drm", s.Class)
	}
	if s.Class == "block" {
		errs.Add(at+".class", "no container gets a block device: mount a volume instead")
	}
	if len(s.Names) > 0 && s.Class == "" {
		errs.Add(at+".names", "it is for the members of a class: give class, too, or write the names into paths")
	}
	each(at+".names", s.Names, errs, checkName)
	if s.PCI != nil {
		s.PCI.check(at+".pci", errs)
	}
	if s.USB != nil {
		s.USB.check(at+".usb", errs)
	}
}

func (p *PCI) check(at string, errs *sdk.FieldErrors) {
	if len(p.Vendors)+len(p.Devices)+len(p.Classes)+len(p.Drivers)+len(p.Subsystems) == 0 {
		errs.Add(at, "it would select every function: give vendors, devices, classes, drivers or subsystems")
	}
	each(at+".vendors", p.Vendors, errs, digits(fourDigits, "four hexadecimal digits, such as 8086"))
	each(at+".devices", p.Devices, errs, digits(withVendor, "four hexadecimal digits, with or without the vendor before it, such as 56c0 or 8086:56c0"))
	each(at+".classes", p.Classes, errs, digits(classDigits, "two, four or six hexadecimal digits, such as 03 or 0302"))
	each(at+".subsystems", p.Subsystems, errs, digits(bothDigits, "vendor and device of the subsystem, such as 8086:4905"))
	each(at+".drivers", p.Drivers, errs, func(name string) string {
		if name != "" && !plainName.MatchString(name) {
			return `is no name of a driver, such as vfio-pci, or "" for none`
		}
		return ""
	})
}

func (u *USB) check(at string, errs *sdk.FieldErrors) {
	each(at+".vendors", u.Vendors, errs, digits(fourDigits, "four hexadecimal digits, such as 0403"))
	each(at+".products", u.Products, errs, digits(withVendor, "four hexadecimal digits, with or without the vendor before it, such as 6001 or 0403:6001"))
	each(at+".serials", u.Serials, errs, func(pattern string) string {
		if _, err := path.Match(pattern, ""); err != nil || pattern == "" {
			return "is no pattern: write a serial number, or one with * and ?"
		}
		return ""
	})
}

// each checks the elements of a list; wrong returns what is wrong with one.
func each(at string, list []string, errs *sdk.FieldErrors, wrong func(string) string) {
	for i, element := range list {
		if what := wrong(element); what != "" {
			errs.Add(fmt.Sprintf("%s[%d]", at, i), "%q %s", element, what)
		} else if slices.Contains(list[:i], element) {
			errs.Add(fmt.Sprintf("%s[%d]", at, i), "%q is there twice: keep one", element)
		}
	}
}

func digits(valid *regexp.Regexp, want string) func(string) string {
	return func(text string) string {
		if plain := strings.TrimPrefix(text, "0x"); !valid.MatchString(text) && valid.MatchString(plain) {
			return "must be " + want + ": write " + plain
		}
		if !valid.MatchString(text) {
			return "must be " + want
		}
		return ""
	}
}

func checkPath(pattern string) string {
	_, err := path.Match(pattern, "")
	name, _ := strings.CutPrefix(pattern, "/dev/") // below /sys, names have points
	first, _, _ := strings.Cut(strings.TrimPrefix(strings.TrimPrefix(pattern, "/dev/"), "/sys/"), "/")
	switch {
	case err != nil:
		return "is no pattern: a [ has no ], or a \\ nothing after it"
	case isRegular(pattern, name) != "":
		return isRegular(pattern, name)
	case !strings.HasPrefix(pattern, "/dev/") && !strings.HasPrefix(pattern, "/sys/"):
		return "must be below /dev or /sys, such as /dev/name[0-9]*"
	case path.Clean(pattern) != pattern:
		return "must be without . or .., and without / at its end"
	case strings.Trim(first, "*?") == "" && strings.Count(pattern, "/") == 2:
		return "matches everything there: begin the name, such as /dev/name*"
	}
	return ""
}

var (
	// regular matches what patterns have not, and regular expressions do: it is in no name of the kernel.
	regular = regexp.MustCompile(`^\^|\$$|\\[dwsDWS]|[()|]|\]\+`)
	// anyAfter matches a name of which it is not known which of the two it is: as a pattern it wants a point.
	anyAfter = regexp.MustCompile(`^[A-Za-z_]+\.[*+]$`)
	// asPattern replaces what a pattern has another form for.
	asPattern = strings.NewReplacer("^", "", "$", "", ".*", "*", ".+", "?*", `\d`, "[0-9]", "]+", "]*")
)

// isRegular returns what is wrong with a pattern that is a regular expression; "" if it is none. Of a path, name is its end.
func isRegular(pattern, name string) string {
	meant := asPattern.Replace(pattern)
	switch {
	case anyAfter.MatchString(name):
		return fmt.Sprintf("wants a point before anything: write %s, or %s if that is meant", meant, strings.Replace(pattern, ".", "[.]", 1))
	case !regular.MatchString(pattern):
		return ""
	case regular.MatchString(meant):
		return "is a regular expression: write patterns such as card[0-9]*, in which * stands for any characters"
	}
	return "is a regular expression: write the pattern " + meant
}

func checkName(pattern string) string {
	if wrong := isRegular(pattern, pattern); wrong != "" {
		return wrong
	}
	if _, err := path.Match(pattern, ""); err != nil || pattern == "" || strings.Contains(pattern, "/") {
		return "is no pattern for a name, such as card[0-9]*"
	}
	return ""
}
