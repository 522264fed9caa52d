#!/usr/bin/env bash
# Does in a system of unpacked packages what their installation would have done, and removes what no lab needs.
# A hook of mmdebstrap(1). Usage: settle.sh ROOT
set -euo pipefail

# Files that are not used on a machine of the lab, and drivers for hardware that no such machine has.
readonly unused=(usr/share/{doc,man,info,locale,bug,lintian,menu,pixmaps,applications,icons} var/cache/apt var/lib/apt/lists
  etc/{cron.d,cron.daily,init.d} usr/lib/systemd/system usr/share/initramfs-tools usr/lib/{linux-image-*,udev/hwdb.d})
readonly unused_drivers=(sound net/{bluetooth,mac80211,wireless,can,nfc,batman-adv,sctp,tipc} arch/arm64/boot
  drivers/{gpu,media,staging,infiniband,iio,hwmon,input,usb,bluetooth,isdn,video,leds,rtc,mtd,crypto,regulator,soc,clk,spi,i2c,pinctrl}
  drivers/net/{wireless,ethernet,usb,wwan,can,hamradio,ieee802154,dsa,phy} drivers/scsi/{lpfc,qla2xxx,mpt3sas,bfa,aacraid,megaraid})

# depmod is in a folder that may not be in an ordinary user's PATH.
export PATH="$PATH:/usr/sbin:/sbin"

settings() {
  local root="$1" name
  cp "$root/usr/share/base-passwd/passwd.master" "$root/etc/passwd"
  cp "$root/usr/share/base-passwd/group.master" "$root/etc/group"
  cp "$root/usr/share/libc-bin/nsswitch.conf" "$root/etc/nsswitch.conf"
  ln -sf /proc/self/mounts "$root/etc/mtab"
  printf '127.0.0.1 localhost raidlab\n' >"$root/etc/hosts"
  # These are links of update-alternatives(1).
  for name in awk:mawk pager:less editor:nano; do ln -sf "${name#*:}" "$root/usr/bin/${name%:*}"; done
}

# Python cannot store compiled modules in a read-only image. Modules for a release other than this computer's stay as
# they are.
compile() {
  local root="$1" folder version
  version="$(python3 -IS -c 'import sys; print("python%d.%d" % sys.version_info[:2])')"
  folder="$root/usr/lib/$version"
  [[ ! -d $folder ]] || python3 -IS -m compileall -q -j 0 -s "$root" --invalidation-mode unchecked-hash "$folder"
}

kernel() {
  local root="$1" modules
  modules="$(echo "$root"/usr/lib/modules/*)"
  rm -rf "${unused_drivers[@]/#/$modules/kernel/}" "$modules"/{build,source}
  depmod -b "$root" "${modules##*/}"
  rm -f "$root"/boot/{System.map,config}-*
}

main() {
  local root="$1"
  settings "$root"
  compile "$root"
  kernel "$root"
  rm -rf "${unused[@]/#/$root/}"
}

main "$@"
