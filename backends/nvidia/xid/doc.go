// Package xid says what an error of NVIDIA's driver means for the health of a
// GPU.
//
// What each code means is in table.yaml, one row a code, each with its source.
// Settings and the environment variables of NVIDIA's device plugin overrule rows;
// README.md, beside this file, is the reference for operators. [Table.Judge]
// joins a row with the recovery action that the driver itself asks for.
//
// The package reads no hardware and keeps nothing: what sticks and what heals a
// fault is for its callers and for the core.
package xid
