-- The five transactions on pgdyno's own tables, driven by sysbench: statement by statement in the text protocol, or
-- by one call of pgdyno's functions. For comparing drivers on equal work; the data are checked afterwards.

sysbench.cmdline.options = {
   warehouses = {"Warehouses", 4},
   shape = {"proc or interactive", "interactive"},
   c_name = {"C of names", 0},
   c_customer = {"C of customers", 0},
   c_item = {"C of items", 0},
}

local random = sysbench.rand.uniform
local bit = require("bit")

local function nurand(a, low, high, c)
   return (bit.bor(random(0, a), random(low, high)) + c) % (high - low + 1) + low
end

local function customer_id() return nurand(1023, 1, 3000, sysbench.opt.c_customer) end
local function name_number() return nurand(255, 0, 999, sysbench.opt.c_name) end

-- By number, or as minus the number of a last name.
local function drawn_customer() return random(1, 100) > 60 and customer_id() or -name_number() end

local function other(w)
   local all = sysbench.opt.warehouses
   if all == 1 then return w end
   return 1 + (w - 1 + random(1, all - 1)) % all
end

local function send(text, ...) return con:query(string.format(text, ...)) end
local function row(text, ...) return con:query_row(string.format(text, ...)) end

local function customer(w, d)
   if random(1, 100) > 60 then return customer_id() end
   return row("SELECT (array_agg(c_id ORDER BY c_first))[(count(*) + 1) / 2] FROM customer "
      .. "WHERE c_w_id = %d AND c_d_id = %d AND c_last = tproc_name(%d)", w, d, name_number())
end

local function new_order(w)
   local d, c, count = random(1, 10), customer_id(), random(5, 15)
   local lines, is_local = {}, 1
   for n = 1, count do
      local supply = w
      if random(1, 100) == 1 then supply = other(w) end
      if supply ~= w then is_local = 0 end
      lines[n] = {supply, nurand(8191, 1, 100000, sysbench.opt.c_item), random(1, 10)}
   end
   table.sort(lines, function(a, b) return a[1] < b[1] or (a[1] == b[1] and a[2] < b[2]) end)
   send("BEGIN")
   row("SELECT w_tax FROM warehouse WHERE w_id = %d", w)
   row("SELECT c_discount, c_last, c_credit FROM customer WHERE c_w_id = %d AND c_d_id = %d AND c_id = %d", w, d, c)
   local o = row("UPDATE district SET d_next_o_id = d_next_o_id + 1 WHERE d_w_id = %d AND d_id = %d "
      .. "RETURNING d_next_o_id - 1", w, d)
   send("INSERT INTO orders (o_id, o_d_id, o_w_id, o_c_id, o_entry_d, o_ol_cnt, o_all_local) "
      .. "VALUES (%d, %d, %d, %d, now(), %d, %d)", o, d, w, c, count, is_local)
   send("INSERT INTO new_order (no_o_id, no_d_id, no_w_id) VALUES (%d, %d, %d)", o, d, w)
   for n, line in ipairs(lines) do
      local supply, item, quantity = line[1], line[2], line[3]
      local price = row("SELECT i_price FROM item WHERE i_id = %d", item)
      local info = row("UPDATE stock SET s_quantity = s_quantity - %d + CASE WHEN s_quantity >= %d THEN 0 ELSE 91 END, "
         .. "s_ytd = s_ytd + %d, s_order_cnt = s_order_cnt + 1, s_remote_cnt = s_remote_cnt + %d "
         .. "WHERE s_w_id = %d AND s_i_id = %d RETURNING s_dist_%02d",
         quantity, quantity + 10, quantity, supply == w and 0 or 1, supply, item, d)
      send("INSERT INTO order_line (ol_o_id, ol_d_id, ol_w_id, ol_number, ol_i_id, ol_supply_w_id, ol_quantity, "
         .. "ol_amount, ol_dist_info) VALUES (%d, %d, %d, %d, %d, %d, %d, %d * %s, '%s')",
         o, d, w, n, item, supply, quantity, quantity, price, info)
   end
   send(random(1, 100) == 1 and "ROLLBACK" or "COMMIT")
end

local function payment(w)
   local d, cents = random(1, 10), random(100, 500000)
   local c_w, c_d = w, d
   if random(1, 100) > 85 and sysbench.opt.warehouses > 1 then c_w, c_d = other(w), random(1, 10) end
   local amount = string.format("%d.%02d", math.floor(cents / 100), cents % 100)
   send("BEGIN")
   local c = customer(c_w, c_d)
   send("UPDATE customer SET c_balance = c_balance - %s, c_ytd_payment = c_ytd_payment + %s, "
      .. "c_payment_cnt = c_payment_cnt + 1, c_data = CASE WHEN c_credit = 'BC' THEN left(concat_ws(' ', c_id, c_data), 500) "
      .. "ELSE c_data END WHERE c_w_id = %d AND c_d_id = %d AND c_id = %d", amount, amount, c_w, c_d, c)
   send("INSERT INTO history SELECT %d, %d, %d, d_id, w_id, now(), %s, w_name || '    ' || d_name "
      .. "FROM warehouse JOIN district ON d_w_id = w_id WHERE w_id = %d AND d_id = %d", c, c_d, c_w, amount, w, d)
   send("UPDATE district SET d_ytd = d_ytd + %s WHERE d_w_id = %d AND d_id = %d", amount, w, d)
   send("UPDATE warehouse SET w_ytd = w_ytd + %s WHERE w_id = %d", amount, w)
   send("COMMIT")
end

local function order_status(w)
   local d = random(1, 10)
   send("BEGIN")
   local c = customer(w, d)
   row("SELECT c_balance, c_first, c_middle, c_last FROM customer WHERE c_w_id = %d AND c_d_id = %d AND c_id = %d", w, d, c)
   local o = row("SELECT coalesce(max(o_id), 0) FROM orders WHERE o_w_id = %d AND o_d_id = %d AND o_c_id = %d", w, d, c)
   send("SELECT ol_i_id, ol_amount FROM order_line WHERE ol_w_id = %d AND ol_d_id = %d AND ol_o_id = %d", w, d, o)
   send("COMMIT")
end

local function delivery(w)
   local carrier = random(1, 10)
   send("BEGIN")
   send("SELECT pg_advisory_xact_lock(1867, %d)", w)
   for d = 1, 10 do
      local o = tonumber(row("SELECT coalesce(min(no_o_id), 0) FROM new_order WHERE no_w_id = %d AND no_d_id = %d", w, d))
      if o > 0 then
         send("DELETE FROM new_order WHERE no_w_id = %d AND no_d_id = %d AND no_o_id = %d", w, d, o)
         local c = row("UPDATE orders SET o_carrier_id = %d WHERE o_w_id = %d AND o_d_id = %d AND o_id = %d "
            .. "RETURNING o_c_id", carrier, w, d, o)
         send("UPDATE order_line SET ol_delivery_d = now() WHERE ol_w_id = %d AND ol_d_id = %d AND ol_o_id = %d", w, d, o)
         send("UPDATE customer SET c_delivery_cnt = c_delivery_cnt + 1, c_balance = c_balance + (SELECT sum(ol_amount) "
            .. "FROM order_line WHERE ol_w_id = %d AND ol_d_id = %d AND ol_o_id = %d) "
            .. "WHERE c_w_id = %d AND c_d_id = %d AND c_id = %d", w, d, o, w, d, c)
      end
   end
   send("COMMIT")
end

local function stock_level(w)
   local d, threshold = random(1, 10), random(10, 20)
   local o = row("SELECT d_next_o_id FROM district WHERE d_w_id = %d AND d_id = %d", w, d)
   send("SELECT count(DISTINCT s_i_id) FROM order_line JOIN stock ON s_w_id = %d AND s_i_id = ol_i_id WHERE ol_w_id = %d "
      .. "AND ol_d_id = %d AND ol_o_id >= %d - 20 AND ol_o_id < %d AND s_quantity < %d", w, w, d, o, o, threshold)
end

local function call(w, drawn)
   local d = random(1, 10)
   if drawn <= 45 then
      local rolled_back = random(1, 100) == 1
      if rolled_back then send("BEGIN") end
      send("SELECT * FROM tproc_new_order(%d, %d, %d, %d, %d, %d)",
         w, d, customer_id(), random(5, 15), sysbench.opt.warehouses, sysbench.opt.c_item)
      if rolled_back then send("ROLLBACK") end
   elseif drawn <= 88 then
      local c_w, c_d = w, d
      if random(1, 100) > 85 then c_w, c_d = other(w), random(1, 10) end
      send("SELECT tproc_payment(%d, %d, %d, %d, %d, %d)", w, d, c_w, c_d, drawn_customer(), random(100, 500000))
   elseif drawn <= 92 then
      send("SELECT * FROM tproc_order_status(%d, %d, %d)", w, d, drawn_customer())
   elseif drawn <= 96 then
      send("SELECT tproc_delivery(%d, %d)", w, random(1, 10))
   else
      send("SELECT tproc_stock_level(%d, %d, %d)", w, d, random(10, 20))
   end
end

function thread_init()
   con = sysbench.sql.driver():connect()
end

function event()
   local w, drawn = 1 + sysbench.tid % sysbench.opt.warehouses, random(1, 100)
   if sysbench.opt.shape == "proc" then return call(w, drawn) end
   if drawn <= 45 then new_order(w)
   elseif drawn <= 88 then payment(w)
   elseif drawn <= 92 then order_status(w)
   elseif drawn <= 96 then delivery(w)
   else stock_level(w) end
end
