#!/bin/sh
# Makes the files of two USB cameras in DIR/sys and DIR/dev, for a machine without a
# camera and for tests. One camera has a serial number and two nodes, as most have.
# Usage: tree.sh DIR
set -eu
mkdir -p "$1/sys/class/video4linux" "$1/dev"

# camera PORT NAME SERIAL NODE...
camera() {
    usb=$root/sys/devices/pci0000:00/0000:00:14.0/usb1/$1
    port=$1 name=$2 serial=$3
    shift 3
    mkdir -p "$usb/power" "$usb/$port:1.0/video4linux"
    echo 046d >"$usb/idVendor"
    echo 0825 >"$usb/idProduct"
    [ -z "$serial" ] || echo "$serial" >"$usb/serial"
    echo 1 >"$usb/authorized"
    echo auto >"$usb/power/control"
    echo suspended >"$usb/power/runtime_status"
    echo 1500 >"$usb/power/active_duration"
    for node; do
        mkdir "$usb/$port:1.0/video4linux/$node"
        echo "$name" >"$usb/$port:1.0/video4linux/$node/name"
        ln -s "../../../$port:1.0" "$usb/$port:1.0/video4linux/$node/device"
        ln -s "../../devices/pci0000:00/0000:00:14.0/usb1/$port/$port:1.0/video4linux/$node" "$root/sys/class/video4linux/$node"
        : >"$root/dev/$node"
    done
}

root=$1
camera 1-2 "HD Webcam: HD Webcam" 8A2B3C4D video0 video1
camera 1-3 "USB 2.0 Camera" "" video2
