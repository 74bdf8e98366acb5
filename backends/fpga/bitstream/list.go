package bitstream

import (
	"errors"
	"io/fs"
	"slices"
	"strings"
)

// Function is an accelerator function that a .gbs has, by the IDs of the file's metadata, in lower case
// without dashes.
type Function struct {
	// File is the name of the file in its directory.
	File string
	// Interface is what a region must have, ID what it shows once it is programmed.
	Interface, ID string
}

// Functions returns those of the .gbs files in a directory, by the names of the files. Other files are
// skipped; problems are those that cannot be read.
func Functions(dir string) (all []Function, problems []error, err error) {
	root, err := openDirectory(dir)
	if err != nil {
		return nil, nil, err
	}
	defer func() { _ = root.Close() }()
	entries, err := fs.ReadDir(root.FS(), ".")
	if err != nil {
		return nil, nil, err
	}
	for _, entry := range entries {
		if !strings.HasSuffix(entry.Name(), ".gbs") || strings.HasPrefix(entry.Name(), ".") {
			continue
		}
		file, err := Find(dir, entry.Name())
		if err != nil {
			problems = append(problems, err)
			continue
		}
		if file.Kind == GBS && len(file.Accelerators) > 0 {
			all = append(all, Function{entry.Name(), file.InterfaceID.Hex(), file.Accelerators[0].ID.Hex()})
		}
		if err := file.Close(); err != nil && !errors.Is(err, fs.ErrClosed) {
			problems = append(problems, err)
		}
	}
	slices.SortFunc(all, func(a, b Function) int { return strings.Compare(a.File, b.File) })
	return all, problems, nil
}
