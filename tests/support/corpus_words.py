"""The words, sentences and published numbers that the made corpus is built from: all our own text.

No decisions are made here; `corpus_plan` decides what a tool is about and `corpus_write` fills in.
"""

import re
from collections.abc import Sequence
from itertools import product
from typing import Any

Points = Sequence[tuple[float, float]]

REAL_SERVERS = 191
REAL_TOOLS = 8586
CHARS_PER_TOKEN = 4.67
LONGEST_NAME = 53

# Published quantiles: share of the population -> value.
LARGEST_SHARE = 2720 / REAL_TOOLS
LARGEST_TOOL_TOKENS = 17_296
SERVER_TOOLS: Points = (
    (0, 1), (0.25, 5), (0.5, 16), (0.75, 36), (0.9, 74), (0.96, 134), (0.99, 190), (1, 401),
)  # fmt: skip
TOOL_TOKENS: Points = (
    (0, 30), (0.1, 106), (0.25, 150), (0.5, 228), (0.75, 362), (0.9, 587), (0.95, 770), (0.99, 2187),
    (1, 9000),
)  # fmt: skip
PARAMETERS: Points = (
    (0, 0), (0.053, 0), (0.054, 1), (0.3, 1), (0.5, 3), (0.75, 4), (0.9, 7), (0.99, 15), (1, 55),
)  # fmt: skip
INSTRUCTION_TOKENS: Points = ((0, 20), (0.5, 312), (0.95, 1500), (1, 4886))
# Shares of the tools that are not on the largest server, whose names are all Mixed_Snake.
STYLES = {"snake": 0.75, "kebab": 0.117, "camel": 0.073, "Pascal": 0.015, "flat": 0.045}


def _split(words: str) -> list[str]:
    return words.split()


READ = _split("get list search find count describe compare check preview summarize export inspect")
WRITE = _split("create add update rename move copy assign tag import merge schedule send approve restore")
DESTROY = _split("delete archive cancel revoke reset purge")
PLURAL_VERBS = _split("list search count compare export merge summarize")
QUALIFIERS = _split("draft recurring shared overdue nightly regional internal external pending backup")
FIELDS = _split(
    "status owner amount currency region priority label checksum title language weight color version source "
    "channel category deadline duration quantity location timezone score reason comment origin phase grade "
    "capacity threshold revision"
)
ANSWER_FIELDS = [*FIELDS, *(f"{one}_{two}" for one, two in product(FIELDS, FIELDS))]
ROLES = _split("viewer editor operator auditor administrator")
GENERIC = _split("user project status comment team event webhook setting role report activity template")
HEADS = _split(
    "amber basil cedar delta ember fable grove harbor indigo juniper krill lumen maple nectar onyx pebble "
    "quartz raven saffron timber umber velvet willow zephyr"
)
TAILS = _split("desk flow base line hub works kit wise")
DOMAINS = """
accounting | the general ledger | invoice, credit note, payment, refund, tax rate, receipt, journal entry
weather | the weather service | forecast, storm warning, station, rainfall map, wind profile, tide table
shipping | the parcel network | shipment, parcel, label, pickup, customs form, delivery route, carrier
hospital | the clinic records | patient, appointment, prescription, lab result, ward, referral, vaccination
library | the library catalog | book, loan, reservation, author, shelf, reading list, late fee
music | the music collection | playlist, track, album, artist, concert, lyric sheet, radio station
travel | the booking desk | flight, hotel room, itinerary, boarding pass, seat, visa, travel alert
code | the source repository | branch, commit, pull request, merge conflict, release, code owner, diff
build | the build pipeline | job, artifact, runner, stage, cache, environment, deployment
database | the database server | table, query, index, migration, backup, replica, stored procedure
mail | the mailbox | message, thread, attachment, folder, mail rule, signature, contact
calendar | the calendar | meeting, invitation, reminder, time slot, room booking, holiday, attendee
chat | the team chat | channel, reaction, mention, emoji, pinned post, call, voice note
files | the file storage | file, folder, upload, quota, share link, trash bin, file revision
maps | the map service | place, route, waypoint, traffic report, map tile, boundary, elevation profile
finance | the trading desk | stock quote, portfolio, order, dividend, exchange rate, watch list, option chain
hiring | the hiring board | candidate, job opening, interview, offer letter, resume, reference, talent pool
payroll | the payroll office | salary, payslip, bonus, deduction, timesheet, expense claim, pension plan
shop | the online shop | product, basket, coupon, stock level, customer review, return, gift card
kitchen | the recipe box | recipe, ingredient, meal plan, shopping list, nutrition label, oven program
garden | the garden planner | plant, flower bed, watering plan, soil sample, harvest, pest report
energy | the energy meter | meter reading, tariff, solar panel, battery, outage, consumption curve
farm | the farm manager | field, herd, crop, tractor, milk yield, feed order, fence
school | the school register | pupil, lesson, grade, homework, class, report card, absence
research | the paper archive | paper, citation, abstract, reviewer, dataset, preprint, funding grant
genetics | the genome browser | gene, variant, protein, pathway, sequence, mutation, expression profile
chemistry | the compound library | molecule, reaction, spectrum, solvent, melting point, safety sheet
space | the observatory | star, telescope, orbit, exposure, satellite pass, launch window, spectral line
security | the security center | incident, vulnerability, firewall rule, access key, audit trail, threat feed
identity | the identity provider | account, group, login session, password policy, permission, token
cloud | the cloud console | virtual machine, disk, network, load balancer, snapshot, cost budget, region
monitoring | the monitoring system | alert, dashboard, metric, log line, service level, trace, silence
design | the design tool | canvas, layer, component, color palette, font, prototype, design review
video | the video studio | clip, subtitle, scene, thumbnail, render job, transcript, watermark
photo | the photo album | photo, face, album cover, filter preset, slideshow, camera, geotag
home | the smart home | lamp, thermostat, door lock, motion sensor, scene setting, blind, socket
sport | the sports league | match, player, season, referee, score board, training plan, transfer
law | the case files | contract, clause, court hearing, claim, witness, deadline notice, patent
property | the property register | apartment, lease, tenant, inspection, land parcel, repair ticket
support | the help desk | ticket, queue, canned answer, escalation, customer, satisfaction survey
"""
PARAMETER_KINDS = """
query | string | Words to look for in the {plural}
limit | integer | Largest number of {plural} to return
cursor | string | Where to go on, as told by the answer before
filter | object | Conditions a {noun} must meet
sort_by | enum | What the {plural} are sorted by
fields | strings | Which parts of the {noun} to return
since | date | Only {plural} changed after this time
until | date | Only {plural} changed before this time
dry_run | boolean | Tell what would happen to the {noun} and change nothing
format | enum | How the {noun} is written in the answer
tags | strings | Labels the {noun} carries
name | string | Name of the {noun}
note | string | A remark kept with the {noun}
parent_id | string | The {other} this {noun} belongs to
notify | boolean | Tell the owner of the {noun} about it
timeout | number | Seconds to wait for the {noun}
amount | number | How much of the {noun} is meant
include_archived | boolean | Whether archived {plural} count
page | integer | Page of the {plural}, from 1
settings | object | Further settings of the {noun}
"""
SENTENCES = """
Use it when somebody asks to {verb} {plural} by {f0}.
Returns the {noun} with its {f0}, {f1} and {f2}.
Needs the role {role} in {product}.
{Plural} that lack the {f0} are left out.
At most {number} {plural} are handled in one call.
The {f0} is compared without regard to case.
Answers an error when the {noun} is locked or its {f0} is empty.
Others see the change after {number} seconds.
Times are given in UTC and the {f1} in the unit of {place}.
Unless told otherwise the {f0} is that of the {other}.
Prefer this to reading every {other} one by one.
Each {noun} belongs to one {other}, which must exist before.
The {others} that refer to it stay as they are.
For example {qualifier} {noun} whose {f0} is {number}.
The answer is sorted by {f2}, then by {f0}.
A {noun} older than {number} days is read from the archive of {place}.
It counts against the hourly limit of {number} requests.
"""
CJK = (
    "在{product}里{chinese}{noun}。返回其状态和负责人以及最近一次修改的时间。需要{role}权限。",
    "{product}の{noun}を{japanese}する。状態と担当者と最終更新日時を返す。{role}の権限が必要。",
)
CJK_DEEDS = {"read": ("查询", "照会"), "write": ("修改", "更新"), "destroy": ("删除", "削除")}
SHOUTS = (
    "IMPORTANT: you MUST ask before you {verb} {plural}. ",
    "ALWAYS prefer this tool for {plural}. ",
    "NEVER guess the {f0}! You MUST look it up. ",
)
FIRST = "Call this first, before any other tool of {product}. "
HIDDEN = (
    "\u202egnihtemos\u202c", "\u2066\u2069", "zero\u200bwidth", "\u200d\u2060", "\ufeff", "so\u00adft",
    "\x1b[2K", "bell\x07", "\x00", "".join(chr(0xE0000 + ord(letter)) for letter in "hidden words"),
)  # fmt: skip
ODD_NAMES = (
    "files.read", "files/read", "Send Mail", "db:query", "caf\u00e9_menu", "\u691c\u7d22", "a+b",
    "2fa.check", "\u0444\u0430\u0439\u043b", "user@host", "\U0001f680", "weather report (daily)",
    "tool\u200bname", "x" * 90,
)  # fmt: skip
DIALECTS = {
    "draft-07": "http://json-schema.org/draft-07/schema#",
    "2020-12": "https://json-schema.org/draft/2020-12/schema",
}
REFUSALS = (
    ("-32601", "Method not found"),
    ("-32602", "Invalid request parameters"),
    ("-32603", "Internal error"),
)
BAD_SCHEMAS: tuple[Any, ...] = ("missing", {}, [], True, "object", None, {"type": "array"})


def plural(noun: str) -> str:
    if re.search(r"[^aeiou]y$", noun):
        return noun[:-1] + "ies"
    return noun + ("es" if re.search(r"(s|x|ch|sh)$", noun) else "s")


def article(noun: str) -> str:
    return ("an " if noun[0] in "aeiou" else "a ") + noun
