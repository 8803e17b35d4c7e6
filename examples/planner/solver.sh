#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# A solver that orders what was sold and half of that beside, as long as less than 400 pieces are there or under way.
# Where LOG is set, it notes there that it was asked, and by which key.
read -r problem
[ -z "$LOG" ] || echo "$DISCO_KEY" >>"$LOG"
number() { echo "$problem" | sed "s/.*\"$1\":\\([0-9]*\\).*/\\1/"; }
sold=$(number sold)
there=$(($(number stock) + $(number ordered)))
[ "$there" -lt 400 ] || sold=0
echo $((sold * 3 / 2))
