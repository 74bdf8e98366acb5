package convert

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// parents is the condition on the physical function: by the name of its interface, or by its
// address. Numbers are those of its virtual functions, or of its subfunctions.
func (d *sriov) parents(at string, s sriovSelectors, subfunctions bool) (string, error) {
	var names, addresses []string
	for i, text := range s.PFNames {
		name, numbers, err := d.functions(fmt.Sprintf("%s.pfNames[%d]", at, i), text)
		if err != nil {
			return "", err
		}
		named := func(directory string) string {
			return fmt.Sprintf("%s/*\").exists(n, n == %s)", directory, strconv.Quote(name))
		}
		switch {
		case subfunctions:
			names = append(names, all(named(`pci.names("net`), subfunction(numbers)))
		case len(numbers) == 0:
			names = append(names, anyOf(named(`self.names("physfn/net`), named(`self.names("net`)))
		default:
			names = append(names, all(named(`self.names("physfn/net`), virtualFunction(numbers)))
		}
	}
	for i, text := range s.RootDevices {
		address, numbers, err := d.functions(fmt.Sprintf("%s.rootDevices[%d]", at, i), text)
		if err != nil {
			return "", err
		}
		if subfunctions {
			addresses = append(addresses, all("pci.address == "+strconv.Quote(address), subfunction(numbers)))
			continue
		}
		is := fmt.Sprintf(`self.has("physfn") && self.link("physfn") == %s`, strconv.Quote(address))
		addresses = append(addresses, all(is, virtualFunction(numbers)))
	}
	return all(anyOf(names...), anyOf(addresses...)), nil
}

// virtualFunction is the condition that a function is one of these virtual functions; none for any.
func virtualFunction(numbers []string) string {
	if len(numbers) == 0 {
		return ""
	}
	links := make([]string, len(numbers))
	for i, n := range numbers {
		links[i] = "virtfn" + n
	}
	return listOf(links) + `.exists(v, self.has("physfn/" + v) && self.link("physfn/" + v) == pci.address)`
}

// subfunction is the same for subfunctions.
func subfunction(numbers []string) string {
	if len(numbers) == 0 {
		return ""
	}
	return `self.text("sfnum") in ` + listOf(numbers)
}

var functionRange = regexp.MustCompile(`^(\d{1,5})(?:-(\d{1,5}))?$`)

// functions splits "name#0,2-7" into the name and the numbers of functions.
func (d *sriov) functions(at, text string) (name string, numbers []string, err error) {
	name, ranges, found := strings.Cut(text, "#")
	if name == "" {
		return "", nil, d.refuse(at, "%q has no name", text)
	}
	if !found {
		return name, nil, nil
	}
	for part := range strings.SplitSeq(ranges, ",") {
		m := functionRange.FindStringSubmatch(strings.TrimSpace(part))
		if m == nil {
			return "", nil, d.refuse(at, "%q must be a name, #, and numbers of functions, such as eth0#0,2-7", text)
		}
		first, _ := strconv.Atoi(m[1]) // of digits
		last := first
		if m[2] != "" {
			last, _ = strconv.Atoi(m[2])
		}
		if last < first {
			return "", nil, d.refuse(at, "%q ends before it begins", part)
		}
		for n := first; n <= last && len(numbers) <= maxFunctions; n++ {
			numbers = append(numbers, strconv.Itoa(n))
		}
	}
	if len(numbers) > maxFunctions {
		return "", nil, d.refuse(at, "more than %d functions cannot be named: leave the numbers out, or select by pciAddresses", maxFunctions)
	}
	return name, numbers, nil
}
